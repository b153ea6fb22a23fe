"""Kernels of onnxruntime with symbolic dimensions: what is written, and run at several sizes."""
# TVMScript has the syntax of Python, and other habits.
# ruff: noqa: N805, N812

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import collage_dsl as collage
from collage_dsl.backends.onnx_writer import Unsupported, outline, to_onnx
from collage_dsl.backends.onnxruntime import OnnxRuntime
from collage_dsl.frontend.from_relax import from_relax
from collage_dsl.graph import Dim, Form, Graph, Node, OpaqueType, TensorType
from collage_dsl.graph.sizes import follows
from collage_dsl.rules import FusionSpec
from tests.cases import covering
from tests.partitioned import run, started
from tests.test_onnx_writer import CASES, Case, f32, graph_of, run_onnx
from tests.test_partition_pass import callees, price

BACKEND = OnnxRuntime()

# ---- Every operator ----

ALL = tuple(n for n in CASES if not n.startswith(("pixel_shuffle", "grid_sample", "roi_align")))
"""
TVM 0.27 crashes where it looks for the type of a pixel shuffle of symbolic channels. The places and
regions of samplings have a fixed number of coordinates, as large as another size of the case.
"""

REFUSED: Mapping[str, str] = {
    "adaptive_divides": "dimension 2 of operand 0 is not known",
    "attention": "dimension 2 of operand 0 is not known",
    "attention_bias": "dimension 2 of operand 0 is not known",
    "attention_scale": "dimension 2 of operand 0 is not known",
    "avg_pool2d_ceil": "dimension 2 of operand 0 is not known",
    "avg_pool2d_ceil_count_pad": "dimension 2 of operand 0 is not known",
    "avg_pool2d_ceil_padded": "dimension 2 of operand 0 is not known",
    "max_pool2d_ceil": "dimension 2 of operand 0 is not known",
    "max_pool2d_ceil_padded": "dimension 2 of operand 0 is not known",
    "repeat_empty": "its shape has a dimension of 0 and one with a name",
    "resize_nearest_round": "dimension 2 of operand 0 is not known",
    "squeeze_all": "without axes on a symbolic shape",
    "take_clip": "dimension 0 of operand 0 is not known",
    "take_wrap": "dimension 0 of operand 0 is not known",
}
"""Why not all dimensions of the first operand may have names."""

FIXED = ("arange", "broadcast_to", "conv2d_depthwise", "conv2d_groups", "full", "zeros")
"""What takes the sizes of its example only."""


def sizes_of(case: Case, axes: slice) -> dict[int, str]:
    """The names of the dimensions at `axes` of the first operand, by size."""
    shape = case.arguments[0].shape
    return {size: f"n{axis}" for axis, size in list(enumerate(shape))[axes][::-1] if size > 1}


def symbolic(case: Case, names: Mapping[int, str]) -> Graph:
    """The case where all dimensions of those sizes have those names."""
    sizes = {size: tvm.tirx.Var(name, "int64") for size, name in names.items()}
    parameters = [
        relax.Var(f"x{i}", relax.TensorType([sizes.get(d, d) for d in a.shape], str(a.dtype)))
        for i, a in enumerate(case.arguments)
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", parameters):
        with builder.dataflow():
            result = builder.emit_output(case.build(*parameters))
        builder.emit_func_output(result)
    return from_relax(builder.get())


def doubled(case: Case, names: Mapping[int, str]) -> Case:
    """The case with twice the size of each dimension that has a name."""
    arguments = [np.tile(a, [2 if d in names else 1 for d in a.shape]) for a in case.arguments]
    return Case(case.build, tuple(arguments))


def assert_same_as_static(name: str, axes: slice) -> None:
    """What is written for any size gives what is written for the size, which others test."""
    case = CASES[name]
    names = sizes_of(case, axes)
    graph = symbolic(case, names)
    assert BACKEND.supports(graph) is None
    for each in (case,) if name in FIXED else (case, doubled(case, names)):
        found, wanted = run_onnx(graph, each.arguments), run_onnx(graph_of(each), each.arguments)
        for ours, theirs in zip(found, wanted, strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in ALL if name not in REFUSED])
def test_a_kernel_for_all_sizes_gives_what_one_for_the_size_does(name: str) -> None:
    assert_same_as_static(name, slice(None))


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_a_size_is_refused_with_the_reason(name: str) -> None:
    graph = symbolic(CASES[name], sizes_of(CASES[name], slice(None)))
    assert REFUSED[name] in (BACKEND.supports(graph) or "")


BATCHED = ("attention", "attention_bias", "avg_pool2d_ceil", "max_pool2d_ceil", "pixel_shuffle")


@pytest.mark.parametrize("name", [*BATCHED, "adaptive_divides", "resize_nearest_round"])
def test_a_batch_may_have_a_name_where_other_dimensions_may_not(name: str) -> None:
    assert_same_as_static(name, slice(0, 1))


# ---- Shapes ----


def call(name: str, op: str, *inputs: int, shape: tuple[Dim, ...], **attrs: Any) -> Node:
    return Node(name, Form.CALL, TensorType("float32", shape), inputs, op, attrs)


def given(name: str, *shape: Dim) -> Node:
    return Node(name, Form.INPUT, TensorType("float32", shape))


def wanted(name: str, *shape: Dim) -> Node:
    return Node(name, Form.LITERAL, OpaqueType("shape"), value=shape)


def reshaping(old: tuple[Dim, ...], new: tuple[Dim, ...]) -> Graph:
    nodes = [given("x", *old), wanted("s", *new), call("y", "reshape", 0, 1, shape=new)]
    return Graph(nodes, [2])


def operators(graph: Graph) -> list[str]:
    return [node.op_type for node in outline(graph)[0].graph.node]


@pytest.mark.parametrize(
    ("old", "new", "written"),
    [
        (("n", 4), ("n * 2", 2), [-1, 2]),
        (("n", "k", 12), ("n", "k", 3, 4), [0, 0, 3, 4]),
        (("n", 3, "k", 4), ("n", "k * 12"), None),
    ],
)
def test_a_reshape_has_constants_where_they_say_it_all(
    old: tuple[Dim, ...], new: tuple[Dim, ...], written: list[int] | None
) -> None:
    graph = reshaping(old, new)
    model, _ = to_onnx(graph)

    assert (operators(graph) == ["Reshape"]) == (written is not None)
    if written is not None:
        assert onnx.numpy_helper.to_array(model.graph.initializer[0]).tolist() == written
    for n in (0, 1, 5):
        shape = [{"n": n, "k": 7}.get(dim, dim) if isinstance(dim, str) else dim for dim in old]
        (found,) = run_onnx(graph, (f32(*shape),))  # type: ignore[arg-type]
        assert found.size == np.prod(shape)


ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "n + k": lambda n, k: n + k,
    "n - k": lambda n, k: n - k,
    "n * 2 + 3": lambda n, k: n * 2 + 3,
    "(n + 1) // 2": lambda n, k: (n + 1) // 2,
    "(k - n) // 4 + 9": lambda n, k: (k - n) // 4 + 9,
    "(k - n) % 4": lambda n, k: (k - n) % 4,
    "min(n, k) * max(n, 6)": lambda n, k: min(n, k) * max(n, 6),
}


@pytest.mark.parametrize("dim", ARITHMETIC)
@pytest.mark.parametrize(("n", "k"), [(5, 2), (4, 4), (11, 1)])
def test_dimensions_are_computed_as_a_model_runs(dim: str, n: int, k: int) -> None:
    shape: tuple[Dim, ...] = (dim, 3)
    nodes = [
        given("x", "n", "k"),
        wanted("s", *shape),
        call("z", "zeros", 1, shape=shape),
        given("y", 1, 3),
        call("b", "broadcast_to", 3, 1, shape=shape),
        call("r", "add", 2, 4, shape=shape),
    ]
    graph = Graph(nodes, [5])
    row = f32(1, 3)

    assert BACKEND.supports(graph) is None
    (found,) = run_onnx(graph, (f32(n, k), row))
    np.testing.assert_array_equal(found, np.broadcast_to(row, (ARITHMETIC[dim](n, k), 3)))


def test_a_dimension_that_no_input_has_is_named() -> None:
    graph = reshaping(("n", "k"), ("m", "n"))

    with pytest.raises(Unsupported, match="no input has the dimension `m`"):
        outline(graph)
    assert BACKEND.supports(graph) == (
        "the shape of `y` does not follow from the inputs': f32[m, n]"
    )


def test_a_number_that_depends_on_a_dimension_is_refused() -> None:
    number = Node("d", Form.LITERAL, OpaqueType("int64"), value="n")
    nodes = [given("x", "n", "n"), number, call("y", "tril", 0, 1, shape=("n", "n"))]

    assert BACKEND.supports(Graph(nodes, [2])) == (
        "`tril` at `y` cannot be written in ONNX: operand 1 depends on the dimension `n`"
    )


def test_dimensions_of_which_nothing_is_known_are_all_different() -> None:
    nodes = [given("x", "?", "?"), call("y", "sum", 0, shape=(), axis=None, keepdims=False)]
    graph = Graph(nodes, [1])
    x = f32(3, 5)

    assert BACKEND.supports(graph) is None
    np.testing.assert_allclose(run_onnx(graph, (x,))[0], x.sum(), rtol=1e-5)
    dims = outline(graph)[0].graph.input[0].type.tensor_type.shape.dim
    assert [dim.WhichOneof("value") for dim in dims] == [None, None]


@pytest.mark.parametrize(
    ("dim", "does"),
    [("n", True), (4, True), ("n * 2", True), ("k * 2", True), ("k", False), ("?", False)],
)
def test_a_dimension_follows_from_those_that_are_given(dim: Dim, does: bool) -> None:
    assert follows(dim, {"n", "k * 2", "?"}) is does


# ---- Calls ----


def test_a_kernel_follows_the_shapes_of_tensors_at_the_same_addresses() -> None:
    rows: tuple[Dim, ...] = ("n", 4)
    graph = Graph([given("x", *rows), call("y", "exp", 0, shape=rows)], [1])
    kernel = BACKEND.codegen(graph, "kernel", {})["kernel"]
    x, y = tvm.runtime.empty((8, 4), "float32"), tvm.runtime.empty((8, 4), "float32")
    kept = f32(8, 4)
    x.copyfrom(kept)

    for n in (8, 3, 5, 8, 1):
        y.copyfrom(np.zeros((8, 4), np.float32))
        kernel(x._create_view((n, 4)), y._create_view((n, 4)))
        np.testing.assert_allclose(y.numpy()[:n], np.exp(kept[:n]), rtol=1e-6)
        assert not y.numpy()[n:].any()


# ---- In the pass ----


@I.ir_module
class Images:
    """A small network, for any number of images."""

    @R.function
    def main(
        x: R.Tensor(("n", 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")
    ) -> R.Tensor(("n", 5), "float32"):
        n = T.int64()
        with R.dataflow():
            a = R.nn.conv2d(x, w, padding=[1, 1])
            b = R.nn.relu(a)
            c = R.nn.max_pool2d(b, pool_size=[2, 2], strides=[2, 2])
            d = R.reshape(c, (n, 64))
            e = R.strided_slice(d, axes=[1], begin=[0], end=[50])
            f = R.reshape(e, (n, 5, 10))
            g = R.mean(f, axis=[2])
            h = R.nn.softmax(g)
            R.output(h)
        return h


@I.ir_module
class Heads:
    """Attention spelled out, for any number of texts of any length."""

    @R.function
    def main(x: R.Tensor(("b", "s", 8), "float32")) -> R.Tensor(("b", "s", 8), "float32"):
        b = T.int64()
        s = T.int64()
        with R.dataflow():
            q = R.permute_dims(R.reshape(x, (b, s, 2, 4)), axes=[0, 2, 1, 3])
            k = R.permute_dims(R.reshape(x, (b, s, 2, 4)), axes=[0, 2, 3, 1])
            p = R.nn.softmax(R.matmul(q, k))
            m = R.permute_dims(R.matmul(p, q), axes=[0, 2, 1, 3])
            y = R.add(x, R.reshape(m, (b, s, 8)))
            z = R.broadcast_to(R.sum(y, axis=[1], keepdims=True), (b, s, 8))
            r = R.subtract(y, z)
            R.output(r)
        return r


SUPPORTED = 'op_predicate("onnxruntime.supports")'


def library(rules: str) -> FusionSpec:
    target = f'compiler "onnxruntime"; rules {rules}; limits {{ max_exits any; taps allowed; }}'
    return collage.load(text=f"collage 1; target ort on llvm {{ {target} }}")["ort"]


@pytest.mark.parametrize(
    ("module", "sizes", "rules"),
    covering(
        [
            (Images, [(n, 3, 8, 8) for n in (2, 5, 1, 5, 0, 7)]),
            # No operand of the `broadcast_to` is of length `s`, so its kernel takes the input too.
            (Heads, [(2, 3, 8), (1, 6, 8), (3, 2, 8), (4, 1, 8)]),
        ],
        [SUPPORTED, f"max_coalesce({SUPPORTED})"],
    ),
)
def test_what_is_supported_runs_at_any_size_as_tvm_does(
    module: Any, sizes: list[tuple[int, ...]], rules: str
) -> None:
    result = collage.CollagePartition([library(rules)], price)(module)
    called = callees(result["main"].body.blocks[0])
    assert called
    assert all(name.startswith("ort_") for name in called)

    ours, theirs = started(result), started(module)
    weights = [f32(4, 3, 3, 3)] if module is Images else []
    for shape in sizes:
        arguments = [f32(*shape), *weights]
        for found, expected in zip(ours(*arguments), theirs(*arguments), strict=True):
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@I.ir_module
class Shrinking:
    """A pooling that onnxruntime's operators can say for some sizes alone."""

    @R.function
    def main(x: R.Tensor(("n", 4, "h", "h"), "float32")) -> R.Tensor(("n", 4, 2, 2), "float32"):
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.nn.adaptive_avg_pool2d(a, output_size=[2, 2])
            R.output(b)
        return b


def test_no_kernel_is_measured_at_a_size_that_cannot_be_built_for_all(tmp_path: Path) -> None:
    given: dict[str, Any] = {"store": tmp_path / "costs.sqlite", "sizes": {"n": 2, "h": 6}}
    result = collage.CollagePartition([library("op_call_by_kind()")], **given)(Shrinking)

    assert callees(result["main"].body.blocks[0]) == ["ort_relu", "relax.nn.adaptive_avg_pool2d"]
    x = f32(3, 4, 6, 6)
    np.testing.assert_allclose(run(result, x)[0], run(Shrinking, x)[0], rtol=1e-5, atol=1e-6)
