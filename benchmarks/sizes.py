"""
Compile a model for several sizes of its dimensions, and race each plan against a compilation for
that size alone.

    python benchmarks/sizes.py MODEL --sizes n=1,4,8 --others n=2 --others n=5 [--store FILE]

MODEL is an ONNX file, or one of `suite.py`, whose batch is then the dimension `n`. The outputs at
each of the sizes, and at `--others`, are compared with those of onnxruntime without optimisations.
Times are CPU time for one thread, else wall time, at a low percentile. The folders that are saved
are weighed too. A ratio of at most 1.05 counts as equally fast.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import suite
from kernels.timing import in_turns
from onnx import numpy_helper

import collage_dsl as collage
from collage_dsl.cli.shapes import parse_shapes, parse_size, parse_sizes
from collage_dsl.cli.targets import load_targets
from collage_dsl.frontend.reference import reference_session
from collage_dsl.graph import Graph, TensorType, members
from collage_dsl.graph.sizes import Sizes, size_of, with_sizes
from collage_dsl.realization.draws import draws_of
from collage_dsl.realization.objects import run_session

TARGETS = ("native", "onnxruntime")
EQUAL = 1.05

Array = np.ndarray[Any, Any]
Shapes = Mapping[str, tuple[int | str, ...]]


def model_of(name: str) -> onnx.ModelProto | str:
    return name if name.endswith(".onnx") else with_free_batch(suite.model(name))


def with_free_batch(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` with the first dimension of inputs and outputs named `n`."""
    shapes = {node.input[1] for node in model.graph.node if node.op_type == "Reshape"}
    constants = {each.name for each in model.graph.initializer}
    for each in model.graph.initializer:
        if each.name in shapes and numpy_helper.to_array(each)[0] == 1:
            dims = numpy_helper.to_array(each).copy()
            dims[0] = 0  # the same as that of the operand
            each.CopyFrom(numpy_helper.from_array(dims, each.name))
    for value in (*model.graph.input, *model.graph.output):
        if value.name not in constants:
            value.type.tensor_type.shape.dim[0].dim_param = "n"
    del model.graph.value_info[:]
    return model


@dataclass(frozen=True, slots=True)
class Benchmark:
    model: onnx.ModelProto | str
    graph: Graph
    shapes: Shapes
    arguments: argparse.Namespace

    def compiled(self, sizes: Mapping[str, tuple[int, ...]], shapes: Shapes) -> collage.Compiled:
        given = self.arguments
        targets = load_targets(TARGETS, given.threads)
        return collage.compile(self.model, targets, shapes=shapes, sizes=sizes, store=given.store)

    def inputs(self, sizes: Sizes) -> Mapping[str, Array]:
        return next(draws_of(with_sizes(self.graph, sizes))).inputs

    def shapes_at(self, sizes: Sizes) -> Shapes:
        nodes = [self.graph.nodes[index] for index in members(self.graph.parameters)]
        return {
            node.name: tuple(size_of(dim, sizes) for dim in node.type.shape or ())
            for node in nodes
            if isinstance(node.type, TensorType)
        }

    def error(self, compiled: collage.Compiled, sizes: Sizes) -> float:
        """The largest difference from onnxruntime, as a part of the largest value."""
        inputs = self.inputs(sizes)
        expected = run_session(reference_session(self.model, self.shapes), inputs)
        found = compiled.run(inputs)
        return max(
            float(np.max(np.abs(found[name] - right)) / np.max(np.abs(right)))
            for name, right in expected.items()
        )

    def rows(self) -> Iterator[str]:
        given = self.arguments
        together = self.compiled(parse_sizes(given.sizes), self.shapes)
        at_sizes = [dict(each.sizes) for each in together.report.sizes]
        yield f"together: {weight(together):.0f} MB"
        for sizes in at_sizes:
            yield self.row(together, sizes)
        for text in given.others:
            other = parse_size(text.split(";"))
            yield f"other  {named(other)}: error {self.error(together, other):.1e}"

    def row(self, together: collage.Compiled, sizes: Sizes) -> str:
        given = self.arguments
        alone = self.compiled({}, self.shapes_at(sizes))
        tensors = together.executable.tensors(self.inputs(sizes))
        executables = [together.executable, alone.executable]
        calls = [partial(each.call, tensors) for each in executables]
        ours, static = in_turns(calls, given.threads, given.seconds)
        verdict = "pass" if ours <= EQUAL * static else "fail"
        return (
            f"{verdict}  {named(sizes)}: {ours * 1e3:.2f} ms, alone {static * 1e3:.2f} ms, "
            f"ratio {ours / static:.2f}; error {self.error(together, sizes):.1e}; "
            f"alone {weight(alone):.0f} MB"
        )


def weight(compiled: collage.Compiled) -> float:
    """The size of the saved folder, in MB."""
    with TemporaryDirectory() as folder:
        compiled.save(Path(folder, "saved"))
        return sum(file.stat().st_size for file in Path(folder, "saved").iterdir()) / 1e6


def named(sizes: Sizes) -> str:
    return ", ".join(f"{name} = {size}" for name, size in sizes.items())


def main() -> None:
    parser = argparse.ArgumentParser(description="Race plans for sizes against static ones.")
    parser.add_argument("model", help=f"a file, or one of {', '.join(suite.names())}")
    parser.add_argument("--shape", action="append", default=[], help="as for `collage compile`")
    parser.add_argument("--sizes", action="append", default=[], help="as for `collage compile`")
    parser.add_argument("--others", action="append", default=[], help="such as `n=2;length=7`")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=15, help="of timing, for each size")
    parser.add_argument("--store", type=Path, help="the file with costs of kernels")
    given = parser.parse_args()
    model, shapes = model_of(given.model), parse_shapes(given.shape)
    graph = collage.from_onnx(model, shapes=shapes)
    for row in Benchmark(model, graph, shapes, given).rows():
        print(row, flush=True)


if __name__ == "__main__":
    main()
