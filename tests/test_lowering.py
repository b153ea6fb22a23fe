"""The second half of the pipeline, `collage.lowering`: what it builds computes what was said."""
# TVMScript has the syntax of Python, and other habits.
# ruff: noqa: E741, N805, N812, SIM108

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import helper
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import collage_dsl as collage
from collage_dsl.realization.errors import BuildError
from tests.cases import covering
from tests.partitioned import LLVM

Array = np.ndarray[Any, Any]

NATIVE = ["native"]


def partitioned(module: tvm.IRModule) -> tvm.IRModule:
    return collage.CollagePartition(NATIVE, cost=lambda _: 1e-5)(module)


def run(module: tvm.IRModule, *arguments: Array) -> list[Array]:
    """What `main` returns, after the pass and the second half."""
    return lowered(partitioned(module), *arguments)


def lowered(module: tvm.IRModule, *arguments: Array) -> list[Array]:
    """What `main` returns, after the second half."""
    executable = tvm.compile(module, LLVM, relax_pipeline=collage.lowering())
    result = relax.VirtualMachine(executable, tvm.cpu())["main"](
        *map(tvm.runtime.tensor, arguments)
    )
    fields = [result] if hasattr(result, "numpy") else result
    return [field.numpy() for field in fields]


def kernels(module: tvm.IRModule) -> set[str]:
    found = ((v, f) for v, f in module.functions_items() if isinstance(f, relax.Function))
    return {str(var.name_hint) for var, f in found if (f.attrs or {}).get("Primitive")}


Operator = Callable[[Any], Any]

SORTED: dict[str, tuple[Operator, Callable[[Array], tuple[Array, ...]]]] = {
    "sort": (lambda x: relax.op.sort(x, axis=1), lambda x: (np.sort(x, 1),)),
    "sort, largest first": (
        lambda x: relax.op.sort(x, axis=0, descending=True),
        lambda x: (-np.sort(-x, 0),),
    ),
    "argsort": (lambda x: relax.op.argsort(x, axis=0), lambda x: (np.argsort(x, 0),)),
    "topk": (
        lambda x: relax.op.topk(x, k=2, axis=1),
        lambda x: (-np.sort(-x, 1)[:, :2], np.argsort(-x, 1)[:, :2]),
    ),
    "topk, its indices": (
        lambda x: relax.op.topk(x, k=2, axis=0, ret_type="indices"),
        lambda x: (np.argsort(-x, 0)[:2],),
    ),
    "cumsum": (lambda x: relax.op.cumsum(x, axis=0), lambda x: (np.cumsum(x, 0),)),
    "cumsum of all": (lambda x: relax.op.cumsum(x), lambda x: (np.cumsum(x),)),
    "cumprod": (lambda x: relax.op.cumprod(x, axis=1), lambda x: (np.cumprod(x, 1),)),
    "cumsum among others": (
        lambda x: relax.op.nn.relu(relax.op.cumsum(relax.op.exp(x), axis=1)),
        lambda x: (np.cumsum(np.exp(x), 1),),
    ),
}


def module_of(operator: Operator, rows: int | str) -> tvm.IRModule:
    """The operator on a tensor of (rows, 6), in a function of one dataflow block."""
    dimension = tvm.tirx.Var(rows, "int64") if isinstance(rows, str) else rows
    x = relax.Var("x", relax.TensorType((dimension, 6), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(operator(x))
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.parametrize(("case", "rows"), covering(SORTED, [4, "n"]))
def test_sorts_and_scans_are_native_kernels(case: str, rows: int | str) -> None:
    operator, expected = SORTED[case]
    module = module_of(operator, rows)
    x = np.random.default_rng(2).normal(size=(4, 6)).astype(np.float32)

    assert kernels(partitioned(module))
    for actual, wanted in zip(run(module, x), expected(x), strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-6)
        assert actual.shape == wanted.shape


WITHOUT_CODE: dict[str, tuple[Operator, Callable[[Array], Array]]] = {
    "ewise_fma": (
        lambda x: relax.op.ewise_fma(x, relax.op.exp(x), relax.op.abs(x)),
        lambda x: x * np.exp(x) + np.abs(x),
    ),
    "adaptive_avg_pool1d without a size": (
        lambda x: relax.op.nn.relu(
            relax.op.nn.adaptive_avg_pool1d(relax.op.reshape(x, (2, 3, -1)), None)
        ),
        lambda x: np.maximum(x, 0).reshape(2, 3, -1),
    ),
    "pixel_shuffle": (
        lambda x: relax.op.nn.relu(
            relax.op.nn.pixel_shuffle(relax.op.reshape(x, (2, 3, 4, -1, 3)), 2)
        ),
        lambda x: np.maximum(_depth_to_space(x.reshape(6, 4, -1, 3)), 0).reshape(2, 3, 1, -1, 6),
    ),
}
"""Operators that TVM declares and does not compile, and what they compute."""


def _depth_to_space(x: Array) -> Array:
    """What onnxruntime computes for images of (N, 4, H, W), in the order of PyTorch."""
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    node = helper.make_node("DepthToSpace", ["x"], ["y"], blocksize=2, mode="CRD")
    given = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)
    graph = helper.make_graph([node], "shuffle", [given], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=10)
    [found] = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    return np.asarray(found)


@pytest.mark.parametrize("rows", [24, "n"])
@pytest.mark.parametrize("case", WITHOUT_CODE)
def test_operators_without_code_in_tvm_are_native_kernels(case: str, rows: int | str) -> None:
    operator, expected = WITHOUT_CODE[case]
    module = module_of(operator, rows)
    x = np.random.default_rng(3).normal(size=(24, 6)).astype(np.float32)

    assert kernels(partitioned(module))
    [actual] = run(module, x)
    assert actual.shape == expected(x).shape
    np.testing.assert_allclose(actual, expected(x), rtol=1e-5, atol=1e-6)


ALIGNED = {
    "one pixel": ((1, 1), "linear"),
    "one row": ((1, 4), "cubic"),
    "one column": ((5, 1), "nearest_neighbor"),
}


@pytest.mark.parametrize("case", ALIGNED)
def test_images_with_aligned_corners_may_become_one_row_or_column(case: str) -> None:
    size, method = ALIGNED[case]

    def operator(x: Any, size: tuple[int, int] = size) -> Any:
        images = relax.op.reshape(x, (2, 2, 3, 6))
        mode = "align_corners"
        return relax.op.image.resize2d(
            images, size, method=method, coordinate_transformation_mode=mode
        )

    x = np.random.default_rng(4).normal(size=(12, 6)).astype(np.float32)
    module = module_of(operator, 12)

    assert kernels(partitioned(module))
    [actual] = run(module, x)
    # With two or more pixels, TVM does not divide by zero.
    wide = tuple(max(side, 2) for side in size)
    [wider] = run(module_of(lambda x: operator(x, wide), 12), x)
    np.testing.assert_array_equal(actual, wider[:, :, : size[0], : size[1]])


CLIPPED = {
    "from below": ("int32", -3, np.inf),
    "from above": ("int64", -np.inf, 5),
    "of bytes": ("uint8", -5, 300),
}


@pytest.mark.parametrize("case", CLIPPED)
def test_integers_are_limited_by_numbers_that_they_do_not_have(case: str) -> None:
    dtype, low, high = CLIPPED[case]
    x = np.array([0, 5, 100, -7 if dtype != "uint8" else 7]).astype(dtype)
    given = relax.Var("x", relax.TensorType(x.shape, dtype))
    builder = relax.BlockBuilder()
    with builder.function("main", [given]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.clip(given, low, high))
        builder.emit_func_output(result)

    [actual] = run(builder.get(), x)

    limits = np.iinfo(dtype)
    assert actual.dtype == x.dtype
    wanted = x.clip(max(low, limits.min), min(high, limits.max))
    np.testing.assert_array_equal(actual, wanted)


def run_of_float16(operator: Operator, *shapes: tuple[int, ...]) -> tuple[Array, list[Array]]:
    """What a function of one operator gives for random float16, and the arrays it took."""
    rng = np.random.default_rng(5)
    arrays = [rng.uniform(0.1, 0.9, shape).astype(np.float16) for shape in shapes]
    given = [relax.Var("x", relax.TensorType(each.shape, "float16")) for each in arrays]
    builder = relax.BlockBuilder()
    with builder.function("main", given):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(operator(given)))
        builder.emit_func_output(result)
    [actual] = run(builder.get(), *arrays)
    return actual, [each.astype(np.float32) for each in arrays]


def test_a_batch_norm_of_float16_is_a_native_kernel() -> None:
    def operator(given: list[Any]) -> Any:
        return relax.TupleGetItem(relax.op.nn.batch_norm(*given, axis=1, training=False), 0)

    actual, (x, *weights) = run_of_float16(operator, (1, 8, 4, 4), *[(8,)] * 4)
    gamma, beta, mean, variance = (each.reshape(8, 1, 1) for each in weights)
    right = (x - mean) / np.sqrt(variance + 1e-5) * gamma + beta
    assert actual.dtype == np.float16
    np.testing.assert_allclose(actual, right, rtol=2e-3, atol=2e-3)


def test_a_grid_sample_of_float16_is_a_native_kernel() -> None:
    actual, (x, grid) = run_of_float16(
        lambda given: relax.op.image.grid_sample(*given), (1, 2, 5, 4), (1, 2, 3, 3)
    )
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 20]> g (float[1,2,5,4] x, float[1,3,3,2] grid)'
        "=> (float[1,2,3,3] y) { y = GridSample (x, grid) }"
    )
    session = onnxruntime.InferenceSession(model.SerializeToString())
    [right] = session.run(None, {"x": x, "grid": grid.transpose(0, 2, 3, 1)})
    assert actual.dtype == np.float16
    np.testing.assert_allclose(actual, right, rtol=2e-3, atol=2e-3)


TRUTH: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Array, Array], Array]]] = {
    "add": (relax.op.add, np.logical_or),
    "equal": (relax.op.equal, np.equal),
    "maximum": (relax.op.maximum, np.logical_or),
    "minimum": (relax.op.minimum, np.logical_and),
    "multiply": (relax.op.multiply, np.logical_and),
    "not_equal": (relax.op.not_equal, np.not_equal),
}
"""Operators of two truth values, and what they compute."""


@pytest.mark.parametrize(("case", "other"), covering(TRUTH, [None, False, True]))
def test_truth_values_are_added_and_compared(case: str, other: bool | None) -> None:
    operator, expected = TRUTH[case]
    zero = relax.const(0.0, "float32")

    def of(x: Any) -> Any:
        positive = relax.op.greater(x, zero)
        right = relax.op.less(relax.op.exp(x), relax.const(2.0, "float32"))
        return operator(positive, right if other is None else relax.const(other, "bool"))

    module = module_of(of, 4)
    x = np.random.default_rng(4).normal(size=(4, 6)).astype(np.float32)
    right = np.exp(x) < 2 if other is None else np.asarray(other)

    assert kernels(partitioned(module))
    [actual] = run(module, x)
    np.testing.assert_array_equal(actual, expected(x > 0, right))


ONE_KERNEL = collage.load(
    text="""
    collage 1;
    rule calls = op_call_by_kind(elementwise, opaque);
    target tvm on llvm {
      rules  combine_by_primitives(calls, using: [join_anything, tuple_projections]);
      limits { max_exits any; taps allowed; }
    }
    """
)["tvm"]


@pytest.mark.parametrize(("case", "rows"), covering(SORTED, [4, "n"]))
def test_sorts_and_scans_are_fused_with_the_calls_before_and_after_them(
    case: str, rows: int | str
) -> None:
    operator, expected = SORTED[case]

    def with_neighbours(x: Any) -> Any:
        given = operator(relax.op.negative(x))
        return relax.op.abs(given[0] if case == "topk" else given)

    module = collage.CollagePartition([ONE_KERNEL], lambda found: 1 / len(found.nodes) ** 2)(
        module_of(with_neighbours, rows)
    )
    x = np.random.default_rng(2).normal(size=(4, 6)).astype(np.float32)

    assert len(kernels(module)) == 1
    (actual,) = lowered(module, x)
    np.testing.assert_allclose(actual, np.abs(expected(-x)[0]), rtol=1e-5, atol=1e-6)


@I.ir_module
class Branches:
    """Sorts and scans in the branches of an `If`, on a batch of any size."""

    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor(("n", 6), "float32")) -> R.Tensor(
        ("n", 6), "float32"
    ):
        if c:
            with R.dataflow():
                a = R.exp(x)
                b = R.cumsum(a, axis=1)
                R.output(b)
            r = R.negative(b)
        else:
            with R.dataflow():
                d = R.tanh(x)
                e = R.sort(d, axis=0)
                f = R.add(e, x)
                R.output(f)
            r = R.abs(f)
        return r


@pytest.mark.parametrize("condition", [True, False])
def test_branches_are_lowered(condition: bool) -> None:
    x = np.random.default_rng(2).normal(size=(4, 6)).astype(np.float32)
    wanted = -np.cumsum(np.exp(x), 1) if condition else np.abs(np.sort(np.tanh(x), 0) + x)

    (actual,) = run(Branches, np.array(condition), x)

    np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-6)


def test_samplings_are_native_kernels() -> None:
    chances = np.full((2, 4), 0.25, np.float32)
    drawn, rows = np.array([[0.1], [0.9]], np.float32), np.array([[0], [1]], np.int64)
    given = (chances, drawn, rows)
    params = [
        relax.Var(f"x{place}", relax.TensorType(array.shape, str(array.dtype)))
        for place, array in enumerate(given)
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            result = builder.emit_output(relax.op.multinomial_from_uniform(*params))
        builder.emit_func_output(result)

    (actual,) = run(builder.get(), *given)

    assert kernels(partitioned(builder.get())) == {"tvm_multinomial_from_uniform"}
    assert actual.tolist() == [[0], [3]]


@I.ir_module
class Sized:
    """A compiled function of any size, in a kernel of one size."""

    @T.prim_func(private=True, s_tir=True)
    def twice(x_: T.handle, y_: T.handle):
        T.func_attr({"op_pattern": 0})
        n = T.int64()
        x = T.match_buffer(x_, (n, T.int64(8)), "float32")
        y = T.match_buffer(y_, (n, T.int64(8)), "float32")
        for i, j in T.grid(n, T.int64(8)):
            with T.sblock("double"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                y[v_i, v_j] = x[v_i, v_j] * T.float32(2)

    @R.function
    def main(x: R.Tensor((3, 8), "float32")) -> R.Tensor((3, 8), "float32"):
        cls = Sized
        with R.dataflow():
            a = R.exp(x)
            b = R.call_tir(cls.twice, (a,), out_ty=R.Tensor((3, 8), "float32"))
            c = R.negative(b)
            R.output(c)
        return c


@I.ir_module
class SizedByFormulas:
    """A compiled function of any size, in kernels whose sizes are formulas, or one name twice."""

    @T.prim_func(private=True, s_tir=True)
    def twice(x_: T.handle, y_: T.handle):
        T.func_attr({"op_pattern": 0})
        n, m = T.int64(), T.int64()
        x = T.match_buffer(x_, (n, m), "float32")
        y = T.match_buffer(y_, (n, m), "float32")
        for i, j in T.grid(n, m):
            with T.sblock("double"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                y[v_i, v_j] = x[v_i, v_j] * T.float32(2)

    @R.function
    def main(x: R.Tensor(("k", "k * 2"), "float32"), y: R.Tensor(("k", "k"), "float32")):
        k = T.int64()
        cls = SizedByFormulas
        with R.dataflow():
            a = R.exp(x)
            b = R.call_tir(cls.twice, (a,), out_ty=R.Tensor((k, k * 2), "float32"))
            c = R.negative(b)
            d = R.exp(y)
            e = R.call_tir(cls.twice, (d,), out_ty=R.Tensor((k, k), "float32"))
            f = R.negative(e)
            R.output(c, f)
        return (c, f)


def test_a_compiled_function_is_fused_at_sizes_that_are_formulas() -> None:
    generator = np.random.default_rng(2)
    x, y = (generator.normal(size=(3, size)).astype(np.float32) for size in (6, 3))

    actual = run(SizedByFormulas, x, y)

    assert all("exp_call_tir_negative" in name for name in kernels(partitioned(SizedByFormulas)))
    for result, given in zip(actual, (x, y), strict=True):
        np.testing.assert_allclose(result, -2 * np.exp(given), rtol=1e-5)


@I.ir_module
class ShortSizes:
    """A compiled function whose sizes have 32 bits, as they have where Python code writes them."""

    @T.prim_func(private=True, s_tir=True)
    def twice(x: T.Buffer((3, 8), "float32"), y: T.Buffer((3, 8), "float32")):
        T.func_attr({"op_pattern": 0})
        for i, j in T.grid(3, 8):
            with T.sblock("double"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                y[v_i, v_j] = x[v_i, v_j] * T.float32(2)

    @R.function
    def main(x: R.Tensor((3, 8), "float32")) -> R.Tensor((3, 8), "float32"):
        cls = ShortSizes
        with R.dataflow():
            a = R.exp(x)
            b = R.call_tir(cls.twice, (a,), out_ty=R.Tensor((3, 8), "float32"))
            c = R.negative(b)
            R.output(c)
        return c


@I.ir_module
class ShortNames:
    """A compiled function of any size of 32 bits, public, called on numbers, names and formulas."""

    @T.prim_func(s_tir=True)
    def scaled(x_: T.handle, y_: T.handle):
        n, m = T.int32(), T.int32()
        x = T.match_buffer(x_, (n, m), "float32")
        y = T.match_buffer(y_, (n, m), "float32")
        for i, j in T.grid(n, m):
            with T.sblock("scale"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                y[v_i, v_j] = x[v_i, v_j] * T.Cast("float32", n)

    @R.function
    def main(
        x: R.Tensor((3, 8), "float32"),
        y: R.Tensor(("k", "l"), "float32"),
        z: R.Tensor(("k", "k * 2"), "float32"),
    ):
        k, l = T.int64(), T.int64()
        cls = ShortNames
        with R.dataflow():
            a = R.exp(x)
            b = R.call_tir(cls.scaled, (a,), out_ty=R.Tensor((3, 8), "float32"))
            c = R.negative(b)
            d = R.exp(y)
            e = R.call_tir(cls.scaled, (d,), out_ty=R.Tensor((k, l), "float32"))
            f = R.negative(e)
            g = R.exp(z)
            h = R.call_tir(cls.scaled, (g,), out_ty=R.Tensor((k, k * 2), "float32"))
            i = R.negative(h)
            R.output(c, f, i)
        return (c, f, i)


NOTED = relax.transform.AnnotateTIROpPattern()


@pytest.mark.parametrize("module", [ShortNames, NOTED(ShortNames)])
def test_a_compiled_function_may_have_names_of_32_bits_for_its_sizes(module: tvm.IRModule) -> None:
    generator = np.random.default_rng(2)
    given = [generator.normal(size=size).astype(np.float32) for size in ((3, 8), (4, 5), (4, 8))]

    for actual in (run(module, *given), lowered(module, *given)):
        for result, x in zip(actual, given, strict=True):
            np.testing.assert_allclose(result, -len(x) * np.exp(x), rtol=1e-5)


@I.ir_module
class SizesAsArguments:
    """Compiled functions that take their sizes, and other numbers, as arguments."""

    @T.prim_func(s_tir=True)
    def filled(n: T.int64, y_: T.handle):
        y = T.match_buffer(y_, (n,), "float32")
        for i in range(n):
            with T.sblock("fill"):
                v_i = T.axis.spatial(n, i)
                y[v_i] = T.float32(2)

    @T.prim_func(s_tir=True)
    def scaled(x_: T.handle, n: T.int64, by: T.float32, y_: T.handle):
        x = T.match_buffer(x_, (n,), "float32")
        y = T.match_buffer(y_, (n,), "float32")
        for i in range(n):
            with T.sblock("scale"):
                v_i = T.axis.spatial(n, i)
                y[v_i] = x[v_i] * by + T.Cast("float32", n)

    @R.function
    def main(x: R.Tensor((8,), "float32"), y: R.Tensor(("k",), "float32")):
        k = T.int64()
        cls = SizesAsArguments
        with R.dataflow():
            a = R.call_tir(cls.filled, (8,), out_ty=R.Tensor((8,), "float32"))
            b = R.add(x, a)
            c = R.call_tir(cls.scaled, (b, 8, T.float32(3)), out_ty=R.Tensor((8,), "float32"))
            d = R.negative(c)
            e = R.call_tir(cls.filled, (k,), out_ty=R.Tensor((k,), "float32"))
            f = R.add(y, e)
            g = R.call_tir(cls.scaled, (f, k, T.float32(3)), out_ty=R.Tensor((k,), "float32"))
            h = R.negative(g)
            R.output(d, h)
        return (d, h)


@pytest.mark.parametrize("module", [SizesAsArguments, NOTED(SizesAsArguments)])
def test_a_compiled_function_may_take_its_sizes_as_arguments(module: tvm.IRModule) -> None:
    generator = np.random.default_rng(2)
    given = [generator.normal(size=size).astype(np.float32) for size in (8, 5)]

    for actual in (run(module, *given), lowered(module, *given)):
        for result, x in zip(actual, given, strict=True):
            np.testing.assert_allclose(result, -3 * (x + 2) - len(x), rtol=1e-5)


@I.ir_module
class WithoutBlock:
    @T.prim_func(private=True, s_tir=True)
    def twice(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        for i in range(8):
            y[i] = x[i] * T.float32(2)

    @R.function
    def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        cls = WithoutBlock
        with R.dataflow():
            a = R.exp(x)
            b = R.call_tir(cls.twice, (a,), out_ty=R.Tensor((8,), "float32"))
            c = R.negative(b)
            R.output(c)
        return c


def test_a_compiled_function_without_blocks_is_in_no_kernel() -> None:
    x = np.random.default_rng(2).normal(size=8).astype(np.float32)

    (actual,) = run(WithoutBlock, x)

    assert kernels(partitioned(WithoutBlock)) == {"tvm_exp", "tvm_negative"}
    np.testing.assert_allclose(actual, -2 * np.exp(x), rtol=1e-5)


@pytest.mark.parametrize("module", [Sized, ShortSizes])
def test_a_compiled_function_is_fused_at_the_sizes_of_the_kernel(module: tvm.IRModule) -> None:
    x = np.random.default_rng(2).normal(size=(3, 8)).astype(np.float32)

    (actual,) = run(module, x)

    assert kernels(partitioned(module)) == {"tvm_exp_call_tir_negative"}
    np.testing.assert_allclose(actual, -2 * np.exp(x), rtol=1e-5)


@pytest.mark.parametrize("module", [Sized, ShortSizes])
def test_a_compiled_function_is_fused_with_calls_that_no_kernel_covers(
    module: tvm.IRModule,
) -> None:
    x = np.random.default_rng(2).normal(size=(3, 8)).astype(np.float32)

    (actual,) = lowered(module, x)

    np.testing.assert_allclose(actual, -2 * np.exp(x), rtol=1e-5)


@I.ir_module
class CallsItself:
    @R.function
    def repeated(n: R.Tensor((), "int64"), x: R.Tensor((4, 8), "float32")) -> R.Tensor(
        (4, 8), "float32"
    ):
        cls = CallsItself
        with R.dataflow():
            goes_on = R.greater(n, R.const(0, "int64"))
            less = R.subtract(n, R.const(1, "int64"))
            y = R.tanh(x)
            R.output(goes_on, less, y)
        if goes_on:
            result = cls.repeated(less, y)
        else:
            result = x
        return result

    @R.function
    def main(x: R.Tensor((4, 8), "float32")) -> R.Tensor((4, 8), "float32"):
        cls = CallsItself
        with R.dataflow():
            a = R.exp(x)
            R.output(a)
        return cls.repeated(R.const(2, "int64"), a)


@I.ir_module
class FunctionInside:
    @R.function
    def main(x: R.Tensor((4, 8), "float32")) -> R.Tensor((4, 8), "float32"):
        @R.function
        def inner(y: R.Tensor((4, 8), "float32")) -> R.Tensor((4, 8), "float32"):
            with R.dataflow():
                b = R.tanh(y)
                c = R.multiply(b, x)
                R.output(c)
            return c

        with R.dataflow():
            a = R.exp(x)
            R.output(a)
        return inner(a)


@I.ir_module
class ResultsOfFunctionsInside:
    @R.function
    def main(
        x: R.Tensor(("n", 8), "float32"), row: R.Tensor((8,), "float32"), more: R.Tensor((), "bool")
    ) -> R.Tensor(("n", 8), "float32"):
        n = T.int64()

        @R.function
        def inner(y: R.Tensor(("n", 8), "float32")) -> R.Tuple(
            R.Tensor(("n", 8), "float32"), R.Tensor(("n",), "float32")
        ):
            with R.dataflow():
                b = R.tanh(y)
                c = R.multiply(b, row)
                d = R.sum(c, axis=[1])
                R.output(c, d)
            return (c, d)

        if more:
            p = inner(x)
            q = p[0]
            r = R.exp(q)
            s = inner(r)
        else:
            with R.dataflow():
                t = inner(x)
                R.output(t)
            s = t
        u = s[0]
        v = s[1]
        w = R.reshape(v, R.shape([n, 1]))
        return R.multiply(u, w)


@I.ir_module
class TuplesInTuples:
    @R.function
    def nested(x: R.Tensor((4, 8), "float32"), y: R.Tensor((4, 8), "float32")) -> R.Tuple(
        R.Tensor((4, 8), "float32"),
        R.Tuple(R.Tensor((4, 8), "float32"), R.Tensor((4, 8), "float32")),
    ):
        with R.dataflow():
            a = R.add(x, y)
            result = (a, (x, y))
            R.output(result)
        return result

    @R.function
    def main(x: R.Tensor((4, 8), "float32")) -> R.Tensor((4, 8), "float32"):
        cls = TuplesInTuples
        with R.dataflow():
            a = R.exp(x)
            b = cls.nested(a, x)
            c = b[1]
            d = c[0]
            e = R.multiply(d, x)
            R.output(e)
        return e


@pytest.mark.parametrize("specs", [["native"], ["onnxruntime"]])
@pytest.mark.parametrize(
    ("module", "expect"),
    [
        (CallsItself, lambda x: np.tanh(np.tanh(np.exp(x)))),
        (FunctionInside, lambda x: np.tanh(np.exp(x)) * x),
        (TuplesInTuples, lambda x: np.exp(x) * x),
    ],
)
def test_functions_that_call_each_other_or_are_inside_others_are_lowered(
    specs: list[str], module: tvm.IRModule, expect: Callable[[Array], Array]
) -> None:
    x = np.random.default_rng(2).normal(size=(4, 8)).astype(np.float32)
    made = collage.CollagePartition(specs, cost=lambda _: 1e-5)(module)
    executable = tvm.compile(made, LLVM, relax_pipeline=collage.lowering())

    result = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(x))

    assert len(made.get_global_vars()) > len(module.get_global_vars())
    np.testing.assert_allclose(result.numpy(), expect(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("more", [False, True])
def test_what_a_function_inside_another_returns_is_an_argument_of_others(more: bool) -> None:
    x, row = np.random.default_rng(2).normal(size=(4, 8)).astype(np.float32), np.float32(range(8))
    made = collage.CollagePartition(["native"], cost=lambda _: 1e-5)(ResultsOfFunctionsInside)
    executable = tvm.compile(made, LLVM, relax_pipeline=collage.lowering())

    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    result = main(*map(tvm.runtime.tensor, (x, row, np.array(more))))

    inner = np.tanh(np.exp(np.tanh(x) * row) if more else x) * row
    expected = inner * inner.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-4, atol=1e-5)


@I.ir_module
class Prefixed:
    I.module_attrs({"system_lib_prefix": "prefixed_"})

    @R.function
    def main(x: R.Tensor((3, 5), "float32")) -> R.Tensor((3, 5), "float32"):
        with R.dataflow():
            a = R.multiply(x, x)
            b = R.tanh(a)
            R.output(b)
        return b


def test_scheduled_kernels_have_the_prefix_that_the_module_asks_for() -> None:
    x = np.random.default_rng(2).normal(size=(3, 5)).astype(np.float32)
    with LLVM:
        lowered = collage.lowering()(Prefixed)
    executable = tvm.compile(Prefixed, LLVM, relax_pipeline=collage.lowering())

    result = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(x))

    functions = [
        (var, f) for var, f in lowered.functions_items() if isinstance(f, tvm.tirx.PrimFunc)
    ]
    assert functions
    assert all(str(var.name_hint).startswith("prefixed_") for var, _ in functions)
    assert all(f.attrs["global_symbol"] == var.name_hint for var, f in functions)
    assert lowered.attrs["system_lib_prefix"] == "prefixed_"
    np.testing.assert_allclose(result.numpy(), np.tanh(x * x), rtol=1e-5, atol=1e-6)


@I.ir_module
class Placeholder:
    @R.function
    def collage_placeholder(x: R.Tensor((4, 8), "float32")) -> R.Tensor((4, 8), "float32"):
        return x

    @R.function
    def main(x: R.Tensor((4, 8), "float32")) -> R.Tensor((4, 8), "float32"):
        cls = Placeholder
        return cls.collage_placeholder(x)


def test_a_function_of_the_module_may_have_the_name_of_the_placeholder() -> None:
    x = np.random.default_rng(2).normal(size=(4, 8)).astype(np.float32)

    (actual,) = lowered(Placeholder, x)

    np.testing.assert_array_equal(actual, x)


def test_kernels_of_sorts_and_scans_are_measured(tmp_path: Any) -> None:
    module = module_of(lambda x: relax.op.cumsum(relax.op.sort(x, axis=1), axis=1), 4)

    measured = collage.CollagePartition(NATIVE, store=tmp_path / "costs")(module)

    assert kernels(measured) == {"tvm_sort", "tvm_cumsum"}


@I.ir_module
class Sharded:
    @R.function
    def main(x: R.Tensor((10, 10), "float32")) -> R.Tensor((10, 5), "float32"):
        with R.dataflow():
            a = R.exp(x)
            b = R.dist.redistribute_replica_to_shard(a, num_workers=2, axis=1)
            R.output(b)
        return b


def test_a_call_that_talks_to_other_processes_is_in_no_kernel() -> None:
    assert kernels(partitioned(Sharded)) == {"tvm_exp"}


@I.ir_module
class Private:
    @R.function(private=True)
    def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        cls = Private
        return cls.negated(R.exp(x))

    @R.function(private=True)
    def negated(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        return R.negative(x)


IN_BLOCKS = relax.transform.ConvertToDataflow(min_size=1)


def test_a_module_without_public_functions_has_its_main() -> None:
    x = np.random.default_rng(2).normal(size=8).astype(np.float32)

    for target in ("native", "onnxruntime"):
        module = collage.CollagePartition([target], cost=lambda _: 1e-5)(IN_BLOCKS(Private))
        (actual,) = lowered(module, x)
        np.testing.assert_allclose(actual, -np.exp(x), rtol=1e-5)


@I.ir_module(check_well_formed=False)
class OfOtherRank:
    @T.prim_func(private=True, s_tir=True)
    def copied(x_: T.handle, y: T.Buffer((16,), "float32")):
        n = T.int64()
        x = T.match_buffer(x_, (n, T.int64(4)), "float32")
        for i, j in T.grid(n, T.int64(4)):
            with T.sblock("copy"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                y[v_i * T.int64(4) + v_j] = x[v_i, v_j]

    @R.function
    def main(x: R.Tensor((16,), "float32")) -> R.Tensor((16,), "float32"):
        cls = OfOtherRank
        with R.dataflow():
            a = R.exp(x)
            b = R.call_tir(cls.copied, (a,), out_ty=R.Tensor((16,), "float32"))
            R.output(b)
        return b


def test_a_compiled_function_that_is_called_on_another_rank_is_refused() -> None:
    with pytest.raises(BuildError, match="`copied` is called on"):
        run(NOTED(OfOtherRank), np.zeros(16, np.float32))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["cosh", "sinh"])
def test_compiled_hyperbolic_functions_are_native_kernels(name: str, dtype: str) -> None:
    x = relax.Var("x", relax.TensorType((16,), dtype))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(builder.call_te(getattr(tvm.topi, name), x))
        builder.emit_func_output(result)
    given = np.random.default_rng(2).normal(size=16).astype(dtype)

    (actual,) = run(builder.get(), given)

    allowed = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-14}[dtype]
    np.testing.assert_allclose(actual, getattr(np, name)(given), rtol=allowed)
