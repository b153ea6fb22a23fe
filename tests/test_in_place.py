"""Concatenations that run nothing: their operands are written where the result is."""
# TVMScript has the syntax of Python, and other habits.
# ruff: noqa: N805, N812

import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

import collage_dsl as collage
from collage_dsl.backends.tvm import Tvm
from collage_dsl.engine.compile import backends_of
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.graph import CandidateKernel, SubGraph, Toolchain
from collage_dsl.realization.difference import relative_error
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.lower import build
from collage_dsl.realization.partition import realize
from collage_dsl.realization.signature import Signature
from collage_dsl.realization.variants import unsuitable, with_variant
from collage_dsl.rules import FusionSpec, OpCallByKind
from tests.cases import sample, slow
from tests.partitioned import LLVM
from tests.reference import run_onnx

pytestmark = pytest.mark.engine

NATIVE = FusionSpec(Toolchain("tvm"), OpCallByKind())
LIBRARY = FusionSpec(Toolchain("ort", compiler="onnxruntime"), OpCallByKind())
SHAPE = [1, 3, 5, 7]


def model(nodes: list[onnx.NodeProto], outputs: list[str]) -> onnx.ModelProto:
    """A model of one input `x`; its outputs may have any number of channels."""
    graph = helper.make_graph(
        nodes,
        "joined",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made)


def node(op: str, inputs: str, output: str, **attributes: int) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), [output], **attributes)


def join(inputs: str, output: str, axis: int = 1) -> onnx.NodeProto:
    return node("Concat", inputs, output, axis=axis)


def joined() -> list[onnx.NodeProto]:
    """Two values, what they are concatenated to, and a function of that."""
    two = [node("Relu", "x", "a"), node("Exp", "x", "b")]
    return [*two, join("a b", "c"), node("Tanh", "c", "y")]


def kernels(made: onnx.ModelProto, *libraries: str) -> list[CandidateKernel]:
    """A kernel for each call; concatenations run nothing where they can. `libraries` are nodes."""
    graph = from_onnx(made)
    native = [_in_place(kernel) for kernel in NATIVE.candidates(graph)]
    by_library = {k.sub_graph.inside: k for k in LIBRARY.candidates(graph)}
    return [
        by_library[kernel.sub_graph.inside] if kernel.nodes & set(libraries) else kernel
        for kernel in native
    ]


def _in_place(kernel: CandidateKernel) -> CandidateKernel:
    asked = with_variant(kernel, "in_place")
    return asked if dict(unsuitable(asked, Tvm())) == {"in_place": None} else kernel


def executable(made: onnx.ModelProto, *libraries: str) -> tuple[ModelExecutable, str, int]:
    """What is built, its instructions, and how many concatenations should run nothing."""
    chosen = kernels(made, *libraries)
    graph = chosen[0].graph
    built = build(realize(graph, chosen, backends_of([NATIVE, LIBRARY])))
    text = built.as_text()
    in_place = sum(kernel.toolchain.variant == "in_place" for kernel in chosen)
    return ModelExecutable(built, Signature.of(graph)), text, in_place


def assert_right(made: onnx.ModelProto, *libraries: str, run_nothing: int) -> None:
    built, text, in_place = executable(made, *libraries)
    x = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)
    expected = run_onnx(made, {"x": x})
    actual = built.run({"x": x})
    for name, value in expected.items():
        assert relative_error(actual[name], value) < 1e-5, name
    assert in_place == run_nothing
    calls = sum("call" in line and "concat" in line for line in text.splitlines())
    joins = sum(each.op_type == "Concat" for each in made.graph.node)
    assert calls == joins - run_nothing


def test_what_is_concatenated_is_written_where_the_result_is() -> None:
    assert_right(model(joined(), ["y"]), run_nothing=1)


def test_a_concatenation_may_be_part_of_another() -> None:
    nodes = [
        node("Relu", "x", "a"),
        node("Exp", "x", "b"),
        join("a b", "c"),
        node("Tanh", "c", "d"),
        join("d c", "e"),
        node("Sigmoid", "e", "f"),
        join("f e", "g"),
        node("Tanh", "g", "y"),
    ]
    assert_right(model(nodes, ["y"]), run_nothing=3)


def test_operands_may_be_used_after_the_concatenation() -> None:
    nodes = [
        node("Relu", "x", "a"),
        node("Exp", "x", "b"),
        join("a b", "c"),
        node("Tanh", "c", "d"),
        node("Exp", "d", "e"),
        node("Tanh", "e", "f"),
        node("Add", "a b", "g"),
        join("f g", "y"),
    ]
    assert_right(model(nodes, ["y"]), run_nothing=2)


@pytest.mark.parametrize(
    ("nodes", "outputs"),
    [
        ([node("Relu", "x", "a"), join("a x", "y")], ["y"]),
        ([node("Relu", "x", "a"), join("a a", "y")], ["y"]),
        ([node("Relu", "x", "a"), node("Exp", "x", "b"), join("a b a", "y")], ["y"]),
        ([node("Relu", "x", "a"), node("Exp", "x", "b"), join("a b", "y")], ["y", "a"]),
        ([node("Relu", "x", "a"), node("Exp", "x", "b"), join("a b", "y", axis=2)], ["y"]),
        (
            [node("Relu", "x", "a"), node("Exp", "x", "b"), join("a b", "y"), join("b a", "z")],
            ["y", "z"],
        ),
    ],
    ids=[
        "an input",
        "one alone, twice",
        "one twice",
        "an output",
        "rows apart",
        "two concatenations",
    ],
)
def test_other_concatenations_copy(nodes: list[onnx.NodeProto], outputs: list[str]) -> None:
    assert_right(model(nodes, outputs), run_nothing=0)


def test_a_library_writes_and_reads_parts_too() -> None:
    nodes = [
        node("Relu", "x", "a"),
        node("Exp", "x", "b"),
        join("a b", "c"),
        node("Tanh", "b", "d"),
        node("Sigmoid", "c", "e"),
        join("d e", "y"),
    ]
    assert_right(model(nodes, ["y"]), "b", "d", run_nothing=2)


def test_a_library_kernel_with_several_results_writes_them_there() -> None:
    nodes = [node("Relu", "x", "s"), node("Exp", "s", "a"), node("Tanh", "s", "b")]
    made = model([*nodes, join("b a", "c"), node("Sin", "c", "y")], ["y"])
    alone = kernels(made)
    graph, library = alone[0].graph, LIBRARY.target
    inside = graph.set_of("s") | graph.set_of("a") | graph.set_of("b")
    others = [each for each in alone if not each.sub_graph.inside & inside]
    chosen = [CandidateKernel(graph, SubGraph(inside), library), *others]
    built = build(realize(graph, chosen, backends_of([NATIVE, LIBRARY])))
    x = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)
    actual = ModelExecutable(built, Signature.of(graph)).run({"x": x})

    assert relative_error(actual["y"], run_onnx(made, {"x": x})["y"]) < 1e-5
    assert not any("call" in row and "concat" in row for row in built.as_text().splitlines())


def test_a_saved_model_does_so_too(tmp_path: Path) -> None:
    made = model(joined(), ["y"])
    options: Any = {"store": tmp_path / "costs.sqlite", "race_seconds": 0.05, "plans": 1}
    compiled = collage.compile(made, [NATIVE], **options)
    compiled.save(tmp_path / "out")
    x = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)

    assert [k.variant for k in compiled.plan.kernels if k.label == "concat"] == ["in_place"]
    result = collage.load_executable(tmp_path / "out").run({"x": x})["y"]
    assert relative_error(result, run_onnx(made, {"x": x})["y"]) < 1e-6


@I.ir_module
class Branches:
    """Concatenations in both branches of an `If`, one of them part of another."""

    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((1, 3, 4), "float32")) -> R.Tensor(
        (1, 9, 4), "float32"
    ):
        if c:
            with R.dataflow():
                a = R.exp(x)
                b = R.tanh(x)
                d = R.concat((a, b), axis=1)
                e = R.sin(x)
                f = R.concat((d, e), axis=1)
                g = R.sigmoid(f)
                R.output(g)
            r = R.negative(g)
        else:
            with R.dataflow():
                h = R.sin(x)
                i = R.concat((h, h, x), axis=1)
                j = R.concat((R.exp(h), R.cos(h), R.tanh(x)), axis=1)
                k = R.add(i, j)
                R.output(k)
            r = R.abs(k)
        return r


@pytest.mark.parametrize("condition", [True, slow(False)])
def test_concatenations_in_branches_run_nothing_too(condition: bool, tmp_path: Path) -> None:
    partition = collage.CollagePartition([NATIVE], store=tmp_path / "costs.sqlite")
    built = tvm.compile(partition(Branches), LLVM, relax_pipeline=collage.lowering())
    x = np.random.default_rng(2).normal(size=(1, 3, 4)).astype(np.float32)
    s = np.sin(x)
    if condition:
        joined = np.concatenate([np.exp(x), np.tanh(x), s], 1)
        wanted = -1 / (1 + np.exp(-joined))
    else:
        other = np.concatenate([np.exp(s), np.cos(s), np.tanh(x)], 1)
        wanted = np.abs(np.concatenate([s, s, x], 1) + other)
    machine = relax.VirtualMachine(built, tvm.cpu())
    actual = machine["main"](tvm.runtime.tensor(np.array(condition)), tvm.runtime.tensor(x))

    np.testing.assert_allclose(actual.numpy(), wanted, rtol=1e-5, atol=1e-6)
    calls = [line for line in built.as_text().splitlines() if "call" in line and "concat" in line]
    assert len(calls) == 1


@pytest.mark.parametrize("seed", sample(2, range(6)))
def test_random_graphs_of_concatenations_are_right(seed: int) -> None:
    draw = random.Random(seed)
    nodes: list[onnx.NodeProto] = []
    names = ["x"]
    for number in range(14):
        name = f"v{number}"
        if draw.random() < 0.4 and len(names) > 2:
            nodes.append(join(" ".join(draw.sample(names[-5:], k=2)), name))
        else:
            op = draw.choice(["Relu", "Tanh", "Sigmoid", "Sin"])
            nodes.append(node(op, draw.choice(names[-5:]), name))
        names.append(name)
    used = {name for each in nodes for name in each.input}
    outputs = [name for name in names[1:] if name not in used]
    made = model(nodes, outputs)
    chosen = kernels(made)
    built, _, _ = executable(made)
    x = np.random.default_rng(seed).normal(size=SHAPE).astype(np.float32)
    actual = built.run({"x": x})

    assert chosen
    for name, value in run_onnx(made, {"x": x}).items():
        assert relative_error(actual[name], value) < 1e-5
