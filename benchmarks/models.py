"""
Compile models for the shipped targets, and race the kept plan against onnxruntime, openvino and
ncnn, which run the whole model.

    python benchmarks/models.py [MODEL …] [--threads N] [--store FILE] [--plans]

The models are the nine light ones of the onnx package with random weights, and those of
`suite.py` that need no PyTorch; MODEL may also be an ONNX file with one output. The kept plan and
the engines run in turn. Times are CPU time for one thread, else wall time, at a low percentile.
Errors are the largest difference to the result in float64, relative to the largest value. `--plans`
also prints the plan of each target alone and the mixed plan, from the race that `collage.compile`
makes. Engines that are not installed are left out.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

import onnx
import suite
from engines import INSTALL, CannotLoadError, Inputs, Load, Loaded, engines
from kernels.reference import error, exact
from kernels.timing import in_turns
from layers import random_inputs

import collage_dsl as collage
from collage_dsl.cli.targets import load_targets
from collage_dsl.frontend.light import light_models

TARGETS = ("native", "onnxruntime")
OURS = "ours"

GOALS = {
    "alexnet": 0.97,
    "densenet121": 0.97,
    "inception_v1": 1.00,
    "inception_v2": 0.88,
    "resnet50": 0.97,
    "squeezenet": 0.97,
    "vgg19": 0.90,
    "zfnet512": 0.97,
    "mobilenet_v2": 1.00,
    "vit_tiny": 1.00,
    "convnext_tiny": 1.00,
    "gpt2": 1.00,
}
"""The largest ratio that the kept plan should have to the best engine, on one thread."""

MEAN_GOALS = {1: 0.90, 2: 0.95}
"""The same for the geometric mean over the light models, by the number of threads."""


@dataclass(frozen=True, slots=True)
class Result:
    seconds: float
    error: float


@dataclass(frozen=True, slots=True)
class Row:
    """One model: the kept plan, results of it and of the engines, and why an engine has none."""

    name: str
    operators: int
    kept: str
    plans: Mapping[str, float]
    results: Mapping[str, Result]
    missing: Mapping[str, str]

    @property
    def ratio(self) -> float:
        """Our time over that of the best engine."""
        others = [each.seconds for name, each in self.results.items() if name != OURS]
        return self.results[OURS].seconds / min(others)


def row(name: str, given: argparse.Namespace, loads: Mapping[str, Load]) -> Row:
    model = suite.model(name)
    inputs = random_inputs(model)
    targets = load_targets(TARGETS, given.threads)
    compiled = collage.compile(model, targets, name=name, store=given.store)
    contenders = {OURS: ours(compiled, inputs)}
    missing = {}
    for engine, load in loads.items():
        try:
            contenders[engine] = load(model, inputs, given.threads)
        except CannotLoadError as problem:
            missing[engine] = str(problem)
    results = race(contenders, model, inputs, given)
    report = compiled.report
    plans = {c.name: c.measured.seconds for c in report.contenders if c.measured}
    return Row(name, report.plan.operators, report.chosen, plans, results, missing)


def ours(compiled: collage.Compiled, inputs: Inputs) -> Loaded:
    tensors = compiled.executable.tensors(inputs)
    (name,) = compiled.run(inputs)
    return Loaded(
        lambda: compiled.executable.call(tensors), lambda: compiled.run(inputs)[name].copy()
    )


def race(
    contenders: Mapping[str, Loaded],
    model: onnx.ModelProto,
    inputs: Inputs,
    given: argparse.Namespace,
) -> dict[str, Result]:
    calls = [each.call for each in contenders.values()]
    times = in_turns(calls, given.threads, given.seconds)
    expected = exact(model, inputs)
    return {
        name: Result(taken, error(each.output(), expected))
        for (name, each), taken in zip(contenders.items(), times, strict=True)
    }


def table_head(names: Sequence[str]) -> str:
    columns = ["model", "operators", "kept plan", *names, "ours / best"]
    columns += [f"error of {name}" for name in names]
    return f"| {' | '.join(columns)} |\n|---|---:|---|{'---:|' * (len(columns) - 3)}"


def line(row: Row, names: Sequence[str]) -> str:
    results = [row.results.get(name) for name in names]
    times = ["-" if each is None else f"{each.seconds * 1e3:.2f} ms" for each in results]
    errors = ["-" if each is None else f"{each.error:.1e}" for each in results]
    columns = [row.name, str(row.operators), row.kept, *times, f"{row.ratio:.2f}", *errors]
    return f"| {' | '.join(columns)} |"


def summary(rows: Sequence[Row], threads: int) -> Iterator[str]:
    """Whether each goal is met, where all engines but those that cannot load a model took part."""
    if threads == 1:
        for row in rows:
            if row.name in GOALS:
                yield _goal(row.name, row.ratio, GOALS[row.name])
    light = [row.ratio for row in rows if row.name in light_models()]
    if len(light) == len(light_models()) and threads in MEAN_GOALS:
        mean = prod(light) ** (1 / len(light))
        yield _goal("geometric mean over the light models", mean, MEAN_GOALS[threads])


def _goal(name: str, ratio: float, limit: float) -> str:
    met = "pass" if round(ratio, 2) <= limit else "fail"
    return f"{met}  {name}: {ratio:.2f}, goal {limit:.2f}"


def plans(rows: Sequence[Row]) -> Iterator[str]:
    names = list(dict.fromkeys(name for row in rows for name in row.plans))
    yield f"| model | {' | '.join(names)} | kept |"
    yield f"|---|{'---:|' * len(names)}---|"
    for row in rows:
        times = [f"{row.plans[n] * 1e3:.2f} ms" if n in row.plans else "-" for n in names]
        yield f"| {row.name} | {' | '.join(times)} | {row.kept} |"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Race our kept plans against engines.")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(suite.names()))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=15, help="of timing, for each model")
    parser.add_argument("--store", type=Path, help="the file with costs of kernels")
    parser.add_argument("--plans", action="store_true", help="also the plans that were compared")
    parser.add_argument("--json", action="store_true", help="one JSON object for each model")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    loads = engines()
    names = [OURS, *loads]
    rows: list[Row] = []
    if not given.json:
        if len(loads) < 3:
            print(f"Compared with {', '.join(loads)} only. For the others: {INSTALL}\n")
        print(table_head(names))
    for name in given.models or [each for each in suite.names() if each not in suite.EXPORTED]:
        rows.append(row(name, given, loads))
        print(json.dumps(asdict(rows[-1])) if given.json else line(rows[-1], names), flush=True)
    if not given.json:
        show(rows, given)


def show(rows: Sequence[Row], given: Any) -> None:
    reasons = [f"{each.name}: {n}: {why}" for each in rows for n, why in each.missing.items()]
    shown = [*reasons, *(plans(rows) if given.plans else ()), *summary(rows, given.threads)]
    print("", *shown, sep="\n")


if __name__ == "__main__":
    main()
