"""Plans as Relax modules."""
# TVMScript has the syntax of Python, and other habits.
# ruff: noqa: N805, N812

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

import collage_dsl as collage
from collage_dsl.backends.registry import find_backend
from collage_dsl.frontend.from_relax import from_relax
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.graph import (
    CandidateKernel,
    Composite,
    Graph,
    SubGraph,
    TensorType,
    Toolchain,
    members,
)
from collage_dsl.realization.difference import relative_error
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.kernel import kernel_name
from collage_dsl.realization.lower import build
from collage_dsl.realization.partition import realize
from collage_dsl.realization.signature import Signature
from tests.models import small_convolution
from tests.reference import run_onnx

TVM = Toolchain("tvm")
LIBRARY = Toolchain("ort", compiler="onnxruntime", options={"num_cores": 1})


def backend_of(toolchain: Toolchain) -> object:
    return find_backend(toolchain.compiler or "tvm")


@pytest.fixture(scope="module")
def graph() -> Graph:
    return from_onnx(small_convolution())


def kernels(graph: Graph, *groups: tuple[Toolchain, Sequence[str]]) -> list[CandidateKernel]:
    """Candidates of the named nodes, and one of TVM for every other call."""
    chosen = [CandidateKernel(graph, SubGraph(graph.set_of(*g)), t) for t, g in groups]
    taken = 0
    for candidate in chosen:
        taken |= candidate.sub_graph.inside
    rest = [CandidateKernel(graph, SubGraph(1 << i), TVM) for i in members(graph.calls & ~taken)]
    return sorted([*chosen, *rest], key=lambda c: c.sub_graph.order)


def functions(module: tvm.IRModule) -> dict[str, relax.Function]:
    return {v.name_hint: f for v, f in module.functions_items()}


def outputs(graph: Graph, chosen: Sequence[CandidateKernel]) -> np.ndarray:
    """What the built module computes."""
    executable = build(realize(graph, chosen, backend_of))
    x = np.random.default_rng(5).normal(size=(1, 3, 12, 12)).astype(np.float32)
    expected = run_onnx(small_convolution(), {"x": x})["y"]
    actual = ModelExecutable(executable, Signature.of(graph)).run({"x": x})["y"]
    assert relative_error(actual, expected) < 1e-5
    return actual


def test_a_kernel_of_tvm_is_a_private_primitive_function(graph: Graph) -> None:
    chosen = kernels(graph, (TVM, ["conv.conv2d", "conv", "relu"]))
    realized = realize(graph, chosen, backend_of)
    kernel = functions(realized)["tvm_conv2d_add_relu"]

    assert kernel.attrs["Primitive"]
    assert "global_symbol" not in kernel.attrs
    relax.analysis.well_formed(realized)
    assert from_relax(tvm.IRModule({"k": kernel}), "k").calls.bit_count() == 3
    outputs(graph, chosen)


def test_a_library_kernel_carries_codegen_symbol_and_options(graph: Graph) -> None:
    chosen = kernels(graph, (LIBRARY, ["conv.conv2d", "conv"]))
    realized = realize(graph, chosen, backend_of)
    kernel = functions(realized)["ort_conv2d_add"]

    assert kernel.attrs["Codegen"] == "onnxruntime"
    assert kernel.attrs["global_symbol"] == "ort_conv2d_add"
    assert kernel.attrs["collage.num_cores"] == 1
    assert len(kernel.params) == 1, "weights are bound inside"
    relax.analysis.well_formed(realized)
    outputs(graph, chosen)


def test_a_composite_is_an_inner_function_of_a_library_kernel(graph: Graph) -> None:
    inside = graph.set_of("conv.conv2d", "conv", "relu")
    tags = (Composite("ort.conv", graph.set_of("conv.conv2d", "conv")),)
    tagged = CandidateKernel(graph, SubGraph(inside, 0, tags), LIBRARY)
    chosen = [tagged, *kernels(graph)[3:]]
    realized = realize(graph, chosen, backend_of)
    kernel = functions(realized)["ort_conv2d_add_relu"]
    inner = [
        binding.value
        for block in kernel.body.blocks
        for binding in block.bindings
        if isinstance(binding.value, relax.Function)
    ]

    assert [function.attrs["Composite"] for function in inner] == ["ort.conv"]
    relax.analysis.well_formed(realized)
    read_back = from_relax(tvm.IRModule({"k": kernel}), "k")
    assert read_back.operators(read_back.calls) == ("nn.conv2d", "add", "nn.relu")
    outputs(graph, chosen)


def test_a_plan_of_library_kernels_only_runs(graph: Graph) -> None:
    whole = CandidateKernel(graph, SubGraph(graph.computed), LIBRARY)

    outputs(graph, [whole])


def test_equal_kernels_share_a_function_and_others_have_names_of_their_own() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.nn.relu(x))
            z = builder.emit(relax.op.nn.relu(y))
            w = builder.emit(relax.op.sum(z, axis=1))
            out = builder.emit_output(relax.op.nn.relu(w))
        builder.emit_func_output(out)
    graph = from_relax(builder.get())

    realized = realize(graph, kernels(graph), backend_of)

    assert set(functions(realized)) == {"main", "tvm_relu", "tvm_relu_2", "tvm_sum"}


def test_running_fuse_ops_leaves_the_chosen_kernels_alone(graph: Graph) -> None:
    realized = realize(graph, kernels(graph, (TVM, ["conv.conv2d", "conv"])), backend_of)
    fused = relax.transform.FuseOps()(realized)

    assert {v.name_hint for v, _ in fused.functions_items()} == set(functions(realized))


def test_the_name_of_a_large_kernel_stays_short(graph: Graph) -> None:
    whole = CandidateKernel(graph, SubGraph(graph.computed), LIBRARY)

    assert kernel_name(whole) == "ort_conv2d_add_8_operators"


def test_a_kernel_with_several_results_gives_each() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 6), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            parts = builder.emit(relax.op.split(x, 2, axis=1))
            a = builder.emit(relax.TupleGetItem(parts, 0))
            b = builder.emit(relax.TupleGetItem(parts, 1))
            e = builder.emit(relax.op.exp(a))
            joined = builder.emit(relax.op.concat([e, b], axis=1))
            out = builder.emit_output(relax.Tuple([joined, b]))
        builder.emit_func_output(out)
    graph = from_relax(builder.get())
    x_value = np.random.default_rng(2).normal(size=(2, 6)).astype(np.float32)
    left, right = x_value[:, :3], x_value[:, 3:]

    for toolchain in (TVM, LIBRARY):
        every = [CandidateKernel(graph, SubGraph(1 << i), toolchain) for i in members(graph.calls)]
        executable = build(realize(graph, every, backend_of))
        first, second = relax.VirtualMachine(executable, tvm.cpu())["main"](
            tvm.runtime.tensor(x_value)
        )
        assert np.allclose(first.numpy(), np.concatenate([np.exp(left), right], 1), rtol=1e-5)
        assert np.array_equal(second.numpy(), right)


def test_a_tuple_that_passes_whole_from_one_kernel_to_another() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 6), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            parts = builder.emit(relax.op.split(x, 2, axis=1))
            out = builder.emit_output(relax.op.concat(parts, axis=0))
        builder.emit_func_output(out)
    graph = from_relax(builder.get())
    x_value = np.random.default_rng(2).normal(size=(2, 6)).astype(np.float32)

    executable = build(realize(graph, kernels(graph), backend_of))
    actual = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(x_value))

    assert np.array_equal(actual.numpy(), np.concatenate([x_value[:, :3], x_value[:, 3:]], 0))


def test_a_tuple_inside_a_kernel_that_a_call_outside_takes_too() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            a = builder.emit(relax.op.nn.relu(x))
            pair = builder.emit(relax.Tuple([a, x]))
            c = builder.emit(relax.op.concat(pair, axis=0))
            d = builder.emit(relax.op.concat(pair, axis=1))
            out = builder.emit_output(relax.Tuple([c, d]))
        builder.emit_func_output(out)
    graph = from_relax(builder.get())
    tuples = graph.names(graph.free) - {"out"}
    relu, concat = (
        n.name for n in graph.nodes if n.op in ("nn.relu", "concat") and n.name != "lv3"
    )
    chosen = kernels(graph, (LIBRARY, [relu, concat, *tuples]))
    x_value = np.random.default_rng(2).normal(size=(2, 3)).astype(np.float32)

    executable = build(realize(graph, chosen, backend_of))
    first, second = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(x_value))

    positive = np.maximum(x_value, 0)
    assert np.array_equal(first.numpy(), np.concatenate([positive, x_value], 0))
    assert np.array_equal(second.numpy(), np.concatenate([positive, x_value], 1))


def test_kernels_whose_composites_differ_only_in_place_do_not_share_a_function() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for _ in range(3):
                value = builder.emit(relax.op.nn.relu(value))
            out = builder.emit_output(relax.op.nn.relu(value))
        builder.emit_func_output(out)
    graph = from_relax(builder.get())
    a, b, c, d = (1 << i for i in members(graph.calls))
    chosen = [
        CandidateKernel(graph, SubGraph(a | b, 0, (Composite("L", a),)), LIBRARY),
        CandidateKernel(graph, SubGraph(c | d, 0, (Composite("L", d),)), LIBRARY),
    ]

    realized = realize(graph, chosen, backend_of)

    assert set(functions(realized)) == {"main", "ort_relu_relu", "ort_relu_relu_2"}


def test_kernels_of_tensors_without_elements_run() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((0, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.nn.relu(relax.op.add(x, x)))
        builder.emit_func_output(out)
    graph = from_relax(builder.get())

    executable = build(realize(graph, kernels(graph), backend_of))
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]

    for _ in range(100):
        assert main(tvm.runtime.tensor(np.zeros((0, 8), np.float32))).numpy().shape == (0, 8)


@pytest.mark.parametrize("toolchain", [TVM, LIBRARY])
def test_a_field_that_is_taken_twice_is_returned_once(toolchain: Toolchain) -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 6), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            parts = builder.emit(relax.op.split(x, 2, axis=0))
            first = builder.emit(relax.op.exp(builder.emit(relax.TupleGetItem(parts, 0))))
            whole = builder.emit(relax.op.concat(parts, axis=0))
            out = builder.emit_output(relax.Tuple([first, whole]))
        builder.emit_func_output(out)
    graph = from_relax(builder.get())
    every = [CandidateKernel(graph, SubGraph(1 << i), toolchain) for i in members(graph.calls)]
    x_value = np.random.default_rng(2).normal(size=(4, 6)).astype(np.float32)

    executable = build(realize(graph, every, backend_of))
    one, other = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(x_value))

    assert np.allclose(one.numpy(), np.exp(x_value[:2]), rtol=1e-5)
    assert np.array_equal(other.numpy(), x_value)


def convolution(batch: str, *result: int) -> Graph:
    """One convolution, with a type for its result that need not be right."""
    text = f"x: f32[{batch}, 3, 8, 8]; w = const f32[4, 3, 3, 3]; y = nn.conv2d(x, w); return y;"
    found = collage.parse_graph(f"graph {{ {text} }}")
    x, w, y = found.nodes
    w = replace(w, value=np.ones((4, 3, 3, 3), np.float32))
    return Graph([x, w, replace(y, type=TensorType("float32", result))], found.outputs)


def test_a_graph_whose_types_are_wrong_is_not_built() -> None:
    graph = convolution("1", 1, 4, 99, 99)
    realized = realize(graph, kernels(graph), backend_of)

    with pytest.raises(TypeError, match=r"is annotated as .*99, 99"):
        build(realized)


def test_types_are_taken_from_the_graph_only_where_all_dimensions_are_numbers() -> None:
    graph = convolution("n", 2, 4, 6, 6)

    kernel = functions(realize(graph, kernels(graph), backend_of))["tvm_conv2d"]

    assert str(kernel.ret_ty.shape) == "R.shape([n, 4, 6, 6])"


@I.ir_module
class Halves:
    @R.function
    def main(x: R.Tensor((4, 4), "float32")) -> R.Tuple(
        R.Tensor((2, 4), "float32"),
        R.Tuple(R.Tensor((2, 4), "float32"), R.Tensor((2, 4), "float32")),
    ):
        with R.dataflow():
            halves = R.split(x, 2, axis=0)
            top = R.exp(halves[0])
            R.output(halves, top)
        return (top, halves)


def test_what_a_call_gives_as_a_tuple_may_be_returned_whole() -> None:
    graph = from_relax(Halves)

    realized = realize(graph, kernels(graph), backend_of)

    x = np.random.default_rng(3).normal(size=(4, 4)).astype(np.float32)
    executable = build(realized)
    top, halves = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(x))
    assert np.allclose(top.numpy(), np.exp(x[:2]), rtol=1e-5)
    assert np.array_equal(np.concatenate([half.numpy() for half in halves]), x)
