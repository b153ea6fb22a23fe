"""
Compile models as PyTorch exports them, and quantized ones, and compare them with onnxruntime.

    make models
    python benchmarks/every_model.py [MODEL …] [--unmeasured]

The models are those of `torch_models.py`, with fixed and with free sizes, and of `quantized.py`.
Each is compiled for `native` and `onnxruntime`. The plan that is kept may be that of onnxruntime
alone. So the plan in which as much as possible is native is built and verified too: each of its
kernels and its outputs, on several draws of inputs. Both run on inputs of this file, and are
compared with onnxruntime. The integers that a quantized model has on the way are compared one by
one. Ends with exit code 1 if a model does not compile, or is wrong. `--unmeasured` leaves out the
measuring of kernels, which takes most of the time, and so the plan that is kept.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch_models
from onnx_cases import built, planned
from quantized import QUANTIZED, integers_alone, quantize, with_outputs

import collage_dsl as collage
from collage_dsl.cli.targets import load_targets
from collage_dsl.engine.covering import coverage
from collage_dsl.engine.sizes import Part
from collage_dsl.engine.verified import verified
from collage_dsl.exact_products.saturation import without_saturation
from collage_dsl.frontend.onnx_model import inputs_of
from collage_dsl.offline import onnxruntime
from collage_dsl.realization.difference import TOLERANCE, relative_error, tolerance

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]

TARGETS = ("native", "onnxruntime")
FREE = "-free"
"""The end of the name of a model with dimensions of any size."""

FREE_MODELS = ("bert_base", "mobilenet_v3")
SIZES = ((1, 7), (3, 20))
"""The sizes of the batch and of all other free dimensions that models with such run with."""


@dataclass(frozen=True, slots=True)
class Row:
    """
    One model: its operator calls, those that native kernels can run, and the others by operator;
    the kernels of the native plan, and those that could be compared with the whole model only. The
    errors are the largest that was found, and the allowed one there: by the verification, and on
    the inputs of this file. The last is that of onnxruntime with its optimisations. `kept` is the
    plan that measuring and racing chose.
    """

    name: str
    calls: int
    native: int
    left: Mapping[str, int]
    kernels: int
    unchecked: int
    verified: tuple[float, float]
    own: tuple[float, float]
    optimized: float
    kept: str


@dataclass(frozen=True, slots=True)
class Integers:
    """How many of the integers that a model computes are those of onnxruntime."""

    name: str
    nodes: int
    equal: int
    all: int


def names() -> tuple[str, ...]:
    return (*torch_models.names(), *QUANTIZED, *(f"{name}{FREE}" for name in FREE_MODELS))


def written(name: str, folder: Path) -> Path:
    """The file of a model, exported and quantized where it is not there yet."""
    if name in QUANTIZED:
        return quantize(name, torch_models.export(QUANTIZED[name][0], folder))
    return torch_models.export(name.removesuffix(FREE), folder, free=name.endswith(FREE))


def row(path: Path, store: Path | None, *, measures: bool) -> Row:
    """Compile a model for all targets if kernels are to be measured, and as the native plan."""
    specs = load_targets(TARGETS, 1)
    compiled = collage.compile(path, specs, store=store) if measures else None
    graph = collage.from_onnx(path)
    native, *_ = coverage(graph, specs)
    plan = planned(graph)
    executable, calls = built(graph, plan)
    verification = verified(path, Part({}, graph, None, None), executable, calls)
    runs = [executable.run, *([compiled.run] if compiled else [])]
    worst, optimized = (0.0, TOLERANCE), 0.0
    for inputs in draws(path):
        plain, usual = reference(path, inputs), reference(path, inputs, optimizes=True)
        for run in runs:
            found = run(inputs)
            worst = max(worst, *(_error(found[n], right) for n, right in plain.items()), key=_share)
        others = (relative_error(usual[n], right) for n, right in plain.items())
        optimized = max(optimized, *others)
    return Row(
        path.stem,
        graph.calls.bit_count(),
        native.covered.bit_count(),
        Counter(graph.nodes[index].op for index in native.left),
        verification.kernels,
        len(verification.unchecked),
        (verification.error, verification.tolerance),
        worst,
        optimized,
        compiled.report.chosen if compiled else "",
    )


def _error(found: Array, right: Array) -> tuple[float, float]:
    """The error, and the allowed one."""
    return relative_error(found, right), tolerance(right)


def _share(error: tuple[float, float]) -> float:
    return error[0] / error[1] if error[1] else np.inf if error[0] else 0.0


def draws(path: Path) -> Iterator[dict[str, Array]]:
    """Seeded inputs of a model: words, masks of which a quarter is padding, or floats."""
    graph = onnx.load(path, load_external_data=False).graph
    for seed, (batch, size) in enumerate(SIZES):
        generator = np.random.default_rng(seed)
        inputs: dict[str, Array] = {}
        for value in inputs_of(graph):
            dims = value.type.tensor_type.shape.dim
            shape = [d.dim_value or (size if place else batch) for place, d in enumerate(dims)]
            if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
                inputs[value.name] = generator.standard_normal(shape, np.float32)
            elif "mask" in value.name:
                mask = np.ones(shape, np.int64)
                mask[:, shape[1] * 3 // 4 :] = 0
                inputs[value.name] = mask
            else:
                inputs[value.name] = generator.integers(0, 10_000, shape)
        yield inputs


def reference(model: Path | onnx.ModelProto, inputs: Arrays, *, optimizes: bool = False) -> Arrays:
    """
    The outputs in onnxruntime: without optimisations they are exact where it could saturate, with
    them they are its own.
    """
    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = (
        levels.ORT_ENABLE_ALL if optimizes else levels.ORT_DISABLE_ALL
    )
    options.log_severity_level = 3
    if not optimizes:
        loaded = onnx.load(model) if isinstance(model, Path) else model
        model = without_saturation(loaded)
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    outputs = [value.name for value in session.get_outputs()]
    return dict(zip(outputs, session.run(outputs, dict(inputs)), strict=True))


def integers(path: Path) -> Integers:
    """
    Compare each node that computes integers, run by a native kernel if there is one, on what the
    node takes in onnxruntime. The numbers that it computes beside integers, such as scales, have to
    be the same bits too.
    """
    model = onnx.load(path)
    alone = integers_alone(model)
    graph = collage.from_onnx(alone)
    executable, _ = built(graph, planned(graph))
    taken = [value.name for value in alone.graph.input]
    equal = every = 0
    for inputs in draws(path):
        values = {**reference(with_outputs(model, taken), inputs), **inputs}
        feeds = {name: values[name] for name in taken}
        found = executable.run(feeds)
        for name, right in reference(alone, feeds).items():
            every += right.size
            equal += int((found[name] == right).sum())
    return Integers(path.stem, len(alone.graph.node), equal, every)


def main() -> int:
    given = _arguments()
    rows: list[Row] = []
    checked: list[Integers] = []
    failed: list[str] = []
    print(_HEAD, flush=True)
    for name in given.models or names():
        try:
            path = written(name, given.folder)
            rows.append(row(path, given.store, measures=not given.unmeasured))
            if name in QUANTIZED:
                checked.append(integers(path))
        except Exception:  # Of all kinds; the other models are still to be tried.
            failed.append(f"{name}: {traceback.format_exc()}")
            print(f"| {name} | failed |", flush=True)
        else:
            print(_line(rows[-1]), flush=True)
    print("", *_left(rows), "", *_checked(checked), "", *failed, sep="\n")
    is_right = all(each.equal == each.all for each in checked)
    return 0 if is_right and not failed and all(map(_is_near, rows)) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compile models and compare with onnxruntime.")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(names()))
    parser.add_argument("--folder", type=Path, default=Path("build/models"), help="for the files")
    parser.add_argument("--store", type=Path, help="the file with costs of kernels")
    parser.add_argument("--unmeasured", action="store_true", help="the native plan alone")
    return parser.parse_args()


_HEAD = (
    "| model | operator calls | native | kernels | unchecked | largest error | on own inputs "
    "| onnxruntime's own | kept plan |\n|---|---:|---:|---:|---:|---:|---:|---:|---|"
)


def _line(row: Row) -> str:
    errors = (f"{error:.1e} of {allowed:.0e}" for error, allowed in (row.verified, row.own))
    columns = [row.name, row.calls, row.native, row.kernels, row.unchecked, *errors]
    return f"| {' | '.join(map(str, columns))} | {row.optimized:.1e} | {row.kept or '-'} |"


def _is_near(row: Row) -> bool:
    """
    Whether the error on inputs of this file is allowed, or at most twice what the optimisations of
    onnxruntime change.
    """
    return row.own[0] <= max(row.own[1], 2 * row.optimized)


def _left(rows: Sequence[Row]) -> Iterator[str]:
    yield "| operator without a native kernel | calls |"
    yield "|---|---|"
    models: dict[str, list[str]] = {}
    for each in rows:
        for op, count in each.left.items():
            models.setdefault(op, []).append(f"{count} in {each.name}")
    yield from (f"| {op} | {', '.join(where)} |" for op, where in sorted(models.items()))


def _checked(checked: Sequence[Integers]) -> Iterator[str]:
    yield "| quantized model | nodes that compute integers | values | bit for bit equal |"
    yield "|---|---:|---:|---:|"
    yield from (f"| {e.name} | {e.nodes} | {e.all} | {e.equal} |" for e in checked)


if __name__ == "__main__":
    sys.exit(main())
