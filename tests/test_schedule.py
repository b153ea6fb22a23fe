"""The native schedules compute what the operators say, whatever the shape, and in vectors."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from numpy.lib.stride_tricks import sliding_window_view
from tvm import relax, s_tir, tirx
from tvm.relax import op as R  # noqa: N812 - as TVM prints it

from collage_dsl.backends.runtime.cores import on_cores
from collage_dsl.backends.schedule import schedule
from tests.cases import covering, slow

Array = Any
Shapes = Sequence[tuple[int, ...]]
CORES = pytest.mark.parametrize("cores", [slow(1), 2])
"""For two cores, the loops for one are within parallel ones. Many shapes are tried with one."""

pytestmark = pytest.mark.usefixtures("small_loops_are_shared")


def native(cores: int = 1, processor: str | None = None) -> Any:
    host = tvm.get_global_func("target.llvm_get_system_cpu")()
    return tvm.target.Target({"kind": "llvm", "mcpu": processor or host, "num-cores": cores})


def fused(
    shapes: Sequence[tuple[int | str, ...]],
    body: Callable[..., Any],
    dtype: str = "float32",
    legalizers: Mapping[str, Any] | None = None,
) -> Any:
    """
    The one function that TVM fuses the operators of `body` into. A dimension with a name has any
    size.
    """
    builder = relax.BlockBuilder()
    names = {
        dim: tirx.Var(dim, "int64") for shape in shapes for dim in shape if isinstance(dim, str)
    }

    def parameters(name: str) -> list[Any]:
        dims = [[names[dim] if isinstance(dim, str) else dim for dim in shape] for shape in shapes]
        types = [relax.TensorType(shape, dtype) for shape in dims]
        return [relax.Var(f"{name}{i}", kind) for i, kind in enumerate(types)]

    inner, outer = parameters("p"), parameters("q")
    with builder.function("kernel", inner, private=True, attrs={"Primitive": True}):
        with builder.dataflow():
            result = builder.emit_output(body(builder.emit, *inner))
        builder.emit_func_output(result)
    (kernel,) = builder.get().get_global_vars()
    with builder.function("main", outer):
        with builder.dataflow():
            result = builder.emit_output(relax.Call(kernel, outer))
        builder.emit_func_output(result)
    module = relax.transform.LegalizeOps(dict(legalizers or {}))(builder.get())
    for lowering in ("AnnotateTIROpPattern", "FuseOps", "FuseTIR"):
        module = getattr(relax.transform, lowering)()(module)
    (func,) = (f for name, f in module.functions.items() if name.name_hint != "main")
    return func.with_attr("global_symbol", "kernel")


def built(func: Any, target: Any) -> Any:
    return tvm.compile(tvm.IRModule({"kernel": func}), target=target)["kernel"]


def vector_loops(func: Any) -> list[int]:
    """Extents of the vectorised loops of a function."""
    found: list[int] = []

    def note(loop: Any) -> None:
        if loop.kind == tirx.ForKind.VECTORIZED:
            found.append(int(loop.extent))

    tvm_ffi.structural_walk(func.body, (tirx.For, note))
    return found


def outputs(func: Any, target: Any, arrays: Sequence[Array]) -> list[Array]:
    results = [
        tvm.runtime.tensor(np.full([int(e) for e in p.shape], 7, str(p.dtype)))
        for p in func.params[len(arrays) :]
    ]
    kernel = on_cores(built(func, target), int(target.attrs["num-cores"]))
    kernel(*[tvm.runtime.tensor(a) for a in arrays], *results)
    return [result.numpy() for result in results]


def check(
    shapes: Shapes, body: Callable[..., Any], expect: Callable[..., Array], cores: int = 1
) -> Any:
    """The scheduled function has vectors and computes `expect`; it is returned."""
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(shape).astype("float32") for shape in shapes]
    func = schedule(fused(shapes, body), target=native(cores))
    assert vector_loops(func)
    found = outputs(func, native(cores), arrays)
    wanted = expect(*[a.astype("float64") for a in arrays])
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for got, want in zip(found, wanted, strict=True):
        assert got.shape == want.shape
        assert np.abs(got - want).max() <= 1e-4 * np.abs(want).max()
    return func


def windows(x: Array, kernel: int, stride: int = 1, dilation: int = 1) -> Array:
    """Every `kernel` by `kernel` window over the last two axes."""
    reach = (kernel - 1) * dilation + 1
    seen = sliding_window_view(x, (reach, reach), axis=(-2, -1))
    return seen[..., ::stride, ::stride, ::dilation, ::dilation]


def padded(x: Array, pad: int, value: float = 0.0) -> Array:
    return np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=value)


def convolved(
    x: Array, w: Array, strides: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1
) -> Array:
    seen = windows(padded(x, padding), w.shape[-1], strides, dilation)
    parts = [
        np.einsum("nchwyx,ocyx->nohw", image, weight)
        for image, weight in zip(np.split(seen, groups, 1), np.split(w, groups, 0), strict=True)
    ]
    return np.concatenate(parts, 1)


def test_floats_are_rounded_to_the_even_neighbour_in_vectors() -> None:
    """Halves, signs of zeros, numbers without digits after the point, infinities and NaN."""
    random = np.random.default_rng(0)
    bits = random.integers(-(2**31), 2**31, 5000).astype(np.int32)
    some = [0.5, 1.5, 2.5, 0.49999997, 2**22 + 0.5, 2**23 - 0.5, 2**23 + 1, 0, np.inf]
    x = np.array([*some, *(-each for each in some), *random.normal(0, 9, 999), np.nan], "float32")
    x = np.concatenate([x, bits.view("float32")])
    func = schedule(fused([x.shape], lambda _, x: R.round(x)), target=native())

    (found,) = outputs(func, native(), [x])

    with np.errstate(invalid="ignore"):
        right = np.rint(x)
    np.testing.assert_array_equal(found, right)
    is_number = ~np.isnan(x)
    np.testing.assert_array_equal(np.signbit(found[is_number]), np.signbit(right[is_number]))
    assert vector_loops(func)


Convolution = tuple[tuple[int, ...], tuple[int, ...], dict[str, int]]
"""The image, the weights, and the attributes."""

CONVOLUTIONS: list[Convolution] = [
    ((1, 17, 7, 7), (19, 17, 3, 3), {"padding": 1}),
    ((2, 3, 33, 35), (8, 3, 7, 7), {"padding": 3, "strides": 2}),
    ((1, 3, 13, 13), (17, 3, 3, 3), {}),
    ((1, 5, 17, 19), (7, 5, 3, 3), {"padding": 2, "dilation": 2, "strides": 2}),
    ((1, 16, 112, 5), (4, 16, 3, 3), {"padding": 1}),
    ((1, 64, 28, 28), (64, 64, 1, 1), {}),
    ((1, 24, 15, 15), (33, 24, 1, 1), {"strides": 2}),
    ((1, 8, 9, 9), (12, 4, 3, 3), {"padding": 1, "groups": 2, "strides": 2}),
    ((1, 17, 13, 13), (17, 1, 3, 3), {"padding": 1, "groups": 17}),
    ((1, 6, 12, 12), (12, 1, 3, 3), {"padding": 1, "groups": 6}),
]
MORE_CONVOLUTIONS: list[Convolution] = [
    ((1, 64, 14, 14), (32, 64, 3, 3), {"padding": 1}),
    ((1, 5, 17, 19), (7, 5, 3, 3), {"padding": 2, "dilation": 2}),
    ((1, 5, 19, 17), (7, 5, 5, 5), {"padding": 2, "strides": 3}),
    ((1, 1024, 7, 7), (40, 1024, 1, 1), {}),
    ((1, 48, 9, 9), (1000, 48, 1, 1), {}),
    ((1, 512, 1, 1), (100, 512, 1, 1), {}),
    ((1, 32, 14, 14), (32, 4, 3, 3), {"padding": 1, "groups": 8}),
    ((1, 18, 28, 28), (18, 1, 5, 5), {"padding": 2, "groups": 18, "strides": 2}),
]


@pytest.mark.parametrize(
    ("image", "weight", "options", "cores"),
    covering(CONVOLUTIONS, [1, 2], rest=MORE_CONVOLUTIONS),
)
def test_a_convolution_of_any_shape_is_the_sum_over_its_windows(
    image: tuple[int, ...], weight: tuple[int, ...], options: dict[str, int], cores: int
) -> None:
    check(
        [image, weight],
        lambda emit, x, w: R.nn.conv2d(x, w, **options),
        lambda x, w: convolved(x, w, **options),
        cores,
    )


@CORES
@pytest.mark.parametrize("size", [7, 28])
def test_an_epilogue_is_computed_where_its_convolution_is_summed(size: int, cores: int) -> None:
    image, channels = (1, 16, size, size), 24

    def body(emit: Any, x: Any, w: Any, b: Any, r: Any) -> Any:
        y = emit(R.add(emit(R.nn.conv2d(x, w, padding=1)), b))
        return R.clip(emit(R.nn.relu(emit(R.add(y, r)))), 0.0, 6.0)

    func = check(
        [image, (channels, 16, 3, 3), (1, channels, 1, 1), (1, channels, size, size)],
        body,
        lambda x, w, b, r: np.clip(convolved(x, w, padding=1) + b + r, 0, 6),
        cores,
    )
    whole = channels * size * size
    assert all(size < whole for size in allocated(func))


def allocated(func: Any) -> list[int]:
    """Sizes of the buffers of the whole function, which a second pass over memory needs."""
    return [math.prod(int(e) for e in buffer.shape) for buffer in func.body.block.alloc_buffers]


@CORES
def test_a_value_inside_a_kernel_may_be_a_result_too(cores: int) -> None:
    def body(emit: Any, x: Any, w: Any) -> Any:
        y = emit(R.nn.conv2d(x, w, padding=1))
        return relax.Tuple([y, emit(R.nn.relu(y))])

    def expect(x: Array, w: Array) -> Array:
        y = convolved(x, w, padding=1)
        return y, np.maximum(y, 0)

    check([(1, 5, 13, 13), (7, 5, 3, 3)], body, expect, cores)


@pytest.mark.parametrize("processor", ["haswell", "x86-64"])
def test_a_narrower_processor_computes_the_same(processor: str) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((1, 17, 13, 13)).astype("float32")
    w = random.standard_normal((19, 17, 3, 3)).astype("float32")
    func = fused([x.shape, w.shape], lambda emit, x, w: R.nn.conv2d(x, w, padding=1))
    target = native(processor=processor)
    (found,) = outputs(schedule(func, target=target), target, [x, w])
    np.testing.assert_allclose(found, convolved(x, w, padding=1), rtol=1e-4, atol=1e-4)


def test_a_value_that_an_epilogue_reads_twice_is_summed_once() -> None:
    def body(emit: Any, x: Any, w: Any, b: Any) -> Any:
        return R.nn.silu(emit(R.add(emit(R.nn.conv2d(x, w)), b)))

    def expect(x: Array, w: Array, b: Array) -> Array:
        y = convolved(x, w) + b
        return y / (1 + np.exp(-y))

    func = check([(1, 9, 13, 13), (10, 9, 1, 1), (1, 10, 1, 1)], body, expect)
    assert not func.body.block.alloc_buffers


@CORES
@pytest.mark.parametrize(
    ("rows", "inner", "columns"),
    [slow(128, 96, 64), (7, 13, 17), (3, 1000, 1000), slow(50, 1536, 70), slow(2, 5, 33)],
)
def test_a_matrix_product_of_any_shape_is_exact(
    rows: int, inner: int, columns: int, cores: int
) -> None:
    check(
        [(rows, inner), (inner, columns), (columns,)],
        lambda emit, x, w, b: R.add(emit(R.matmul(x, w)), b),
        lambda x, w, b: x @ w + b,
        cores,
    )


@CORES
@pytest.mark.parametrize(
    "shape", [slow((1, 1000, 1000)), (1, 1003, 10), slow((1, 64, 8200)), (1, 7, 3)]
)
def test_a_vector_times_a_matrix_reads_the_matrix_in_place(
    shape: tuple[int, int, int], cores: int
) -> None:
    rows, inner, columns = shape
    func = check(
        [(rows, inner), (inner, columns)],
        lambda emit, x, w: R.matmul(x, w),
        lambda x, w: x @ w,
        cores,
    )
    assert sum(local_sizes(func)) < inner * columns or columns < 4


def local_sizes(func: Any) -> list[int]:
    found: list[int] = []

    def note(block: Any) -> None:
        found.extend(math.prod(int(e) for e in b.shape) for b in block.alloc_buffers)

    tvm_ffi.structural_walk(func.body, (tvm.s_tir.SBlock, note))
    return found


@CORES
def test_a_batch_of_products_may_share_or_transpose_an_operand(cores: int) -> None:
    check([(2, 3, 20, 32), (32, 33)], lambda emit, x, w: R.matmul(x, w), lambda x, w: x @ w, cores)
    check(
        [(4, 20, 24), (4, 31, 24)],
        lambda emit, x, w: R.matmul(x, emit(R.permute_dims(w, [0, 2, 1]))),
        lambda x, w: x @ w.transpose(0, 2, 1),
        cores,
    )
    check(
        [(1, 100), (70, 100)],
        lambda emit, x, w: R.matmul(x, emit(R.permute_dims(w))),
        lambda x, w: x @ w.T,
        cores,
    )


POOLS = [((2, 17, 7, 7), 3, 1, 1), ((1, 4, 12, 12), 2, 2, 0), ((1, 4, 17, 33), 5, 3, 2)]
MORE_POOLS = [((1, 5, 13, 13), 3, 2, 1), ((1, 3, 112, 112), 3, 2, 1)]


@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "pad", "cores"), covering(POOLS, [1, 2], rest=MORE_POOLS)
)
def test_pooling_of_any_shape_takes_the_maximum_or_mean_of_its_windows(
    shape: tuple[int, ...], kernel: int, stride: int, pad: int, cores: int
) -> None:
    check(
        [shape],
        lambda emit, x: R.nn.max_pool2d(x, (kernel,) * 2, (stride,) * 2, (pad,) * 2),
        lambda x: windows(padded(x, pad, -np.inf), kernel, stride).max((-2, -1)),
        cores,
    )
    check(
        [shape],
        lambda emit, x: R.nn.avg_pool2d(x, (kernel,) * 2, (stride,) * 2, (pad,) * 2),
        lambda x: (
            windows(padded(x, pad), kernel, stride).sum((-2, -1))
            / windows(padded(np.ones_like(x), pad), kernel, stride).sum((-2, -1))
        ),
        cores,
    )


@CORES
@pytest.mark.parametrize("size", [slow(7), 13, slow(14)])
def test_a_global_average_is_the_mean_of_each_image(size: int, cores: int) -> None:
    check(
        [(1, 1000, size, size)],
        lambda emit, x: R.mean(x, [2, 3], keepdims=True),
        lambda x: x.mean((2, 3), keepdims=True),
        cores,
    )


def softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@CORES
@pytest.mark.parametrize(
    ("shape", "axis"),
    [slow((1, 1000), -1), ((12, 17, 128), -1), slow((3, 7), -1), ((2, 8, 9, 9), 1)],
)
def test_a_softmax_sums_to_one_along_its_axis(
    shape: tuple[int, ...], axis: int, cores: int
) -> None:
    check([shape], lambda emit, x: R.nn.softmax(x, axis), lambda x: softmax(x, axis), cores)


def with_special_rows(count: int) -> Array:
    x = np.random.default_rng(0).standard_normal((8, count)).astype("float32")
    x[0], x[4], x[5] = -np.inf, np.finfo("float32").min, 1e30
    x[1, -1], x[2, -1], x[3, -1] = np.inf, np.nan, -np.inf
    x[6, 0], x[6, -1] = 200, np.nan
    return x


def exponentials(emit: Any, x: Any) -> Any:
    return emit(R.exp(emit(R.subtract(x, emit(R.max(x, -1, keepdims=True))))))


def read_again(emit: Any, x: Any) -> Any:
    e = exponentials(emit, x)
    return R.multiply(emit(R.divide(e, emit(R.sum(e, -1, keepdims=True)))), e)


SOFTMAXES: list[tuple[Callable[..., Any], Callable[[Array], Array]]] = [
    (lambda emit, x: R.nn.softmax(x), lambda x: softmax(x, -1)),
    (lambda emit, x: R.nn.log_softmax(x), lambda x: np.log(softmax(x, -1))),
    (lambda emit, x: R.multiply(emit(R.nn.softmax(x)), x), lambda x: softmax(x, -1) * x),
    (lambda emit, x: R.permute_dims(emit(R.nn.softmax(x))), lambda x: softmax(x, -1).T),
    (read_again, lambda x: softmax(x, -1) * np.exp(x - x.max(-1, keepdims=True))),
]


@pytest.mark.parametrize(("count", "body", "expect"), covering([8, 33, 130], SOFTMAXES))
def test_a_softmax_of_special_numbers_is_that_of_numpy(
    count: int, body: Callable[..., Any], expect: Callable[[Array], Array]
) -> None:
    x = with_special_rows(count)
    (found,) = outputs(schedule(fused([x.shape], body), target=native()), native(), [x])
    with np.errstate(all="ignore"):
        wanted = expect(x.astype("float64"))
        np.testing.assert_allclose(found, wanted.astype("float32"), rtol=1e-4, atol=1e-6)


def test_the_exponentials_of_a_softmax_wait_in_its_result() -> None:
    func = schedule(fused([(12, 5000)], lambda emit, x: R.nn.softmax(x)), target=native())
    names: set[str] = set()

    def note(block: Any) -> None:
        names.update(buffer.name for buffer in block.alloc_buffers)

    tvm_ffi.structural_walk(func.body, (s_tir.SBlock, note))
    assert "T_softmax_expsum" in names
    assert "T_softmax_exp" not in names


@CORES
@pytest.mark.parametrize("shape", [(16, 768), (5, 17), slow((3, 1000))])
def test_a_layer_norm_scales_each_row(shape: tuple[int, int], cores: int) -> None:
    def expect(x: Array, g: Array, b: Array) -> Array:
        scaled = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return scaled * g + b

    check(
        [shape, shape[1:], shape[1:]],
        lambda emit, x, g, b: R.nn.layer_norm(x, g, b, axes=[-1]),
        expect,
        cores,
    )


def test_two_sums_taken_in_one_block_are_both_vectorised() -> None:
    def expect(x: Array, g: Array, b: Array) -> Array:
        spread = np.sqrt(x.var((2, 3), keepdims=True) + 1e-5)
        return (x - x.mean((2, 3), keepdims=True)) / spread * g.reshape(-1, 1, 1) + b.reshape(
            -1, 1, 1
        )

    check(
        [(2, 6, 13, 13), (6,), (6,)],
        lambda emit, x, g, b: R.nn.instance_norm(x, g, b, 1, [2, 3]),
        expect,
    )


LENGTHS = [2, 8, 24, 100]
MORE_LENGTHS = [3, 16, 32, 48]


@pytest.mark.parametrize(("length", "cores"), covering(LENGTHS, [1, 2], rest=MORE_LENGTHS))
def test_a_value_that_only_the_sum_of_its_row_reads_is_summed(length: int, cores: int) -> None:
    def body(emit: Any, x: Any) -> Any:
        y = emit(R.exp(x))
        return R.sum(emit(R.multiply(y, y)), axis=1)

    check([(5, length)], body, lambda x: (np.exp(x) ** 2).sum(1), cores)


@pytest.mark.parametrize(
    ("length", "function", "cores"),
    covering(LENGTHS, [R.sum, R.max, R.mean], [1, 2], rest=MORE_LENGTHS),
)
def test_the_elements_of_a_row_and_what_they_reduce_to_may_both_be_results(
    function: Any, length: int, cores: int
) -> None:
    def body(emit: Any, x: Any) -> Any:
        y = emit(R.multiply(x, x))
        return relax.Tuple([y, emit(function(y, axis=1))])

    def expect(x: Array) -> Array:
        return x * x, getattr(np, function.__name__)(x * x, axis=1)

    check([(5, length)], body, expect, cores)


@CORES
@pytest.mark.parametrize("size", [13, slow(56)])
def test_a_local_response_norm_divides_by_a_power_of_its_neighbours(size: int, cores: int) -> None:
    def body(emit: Any, x: Any) -> Any:
        y = emit(R.expand_dims(emit(R.multiply(x, x)), [1]))
        pads = (2, 0, 0, 2, 0, 0)
        y = emit(R.nn.avg_pool3d(y, (5, 1, 1), (1, 1, 1), pads, count_include_pad=True))
        y = emit(R.multiply(emit(R.squeeze(y, [1])), relax.const(0.1, "float32")))
        y = emit(R.power(emit(R.add(y, relax.const(1.0, "float32"))), relax.const(0.75, "float32")))
        return R.divide(x, y)

    def expect(x: Array) -> Array:
        squares = np.pad(x * x, ((0, 0), (2, 2), (0, 0), (0, 0)))
        total = sliding_window_view(squares, 5, axis=1).sum(-1)
        return x / (1 + 0.1 * total / 5) ** 0.75

    check([(1, 12, size, size)], body, expect, cores)


@CORES
def test_reductions_over_any_axes_are_exact(cores: int) -> None:
    shape = (4, 30, 50)
    check([shape], lambda emit, x: R.sum(x, [1]), lambda x: x.sum(1), cores)
    check([shape], lambda emit, x: R.max(x, [0]), lambda x: x.max(0), cores)
    check([shape], lambda emit, x: R.min(x, [2]), lambda x: x.min(2), cores)
    check([shape], lambda emit, x: R.sum(x, [1, 2]), lambda x: x.sum((1, 2)), cores)
    check([shape], lambda emit, x: R.sum(x, [0, 2]), lambda x: x.sum((0, 2)), cores)
    check([shape], lambda emit, x: R.variance(x, [2]), lambda x: x.var(2), cores)
    check([shape], lambda emit, x: R.prod(x, [1]), lambda x: x.prod(1), cores)


@CORES
@pytest.mark.parametrize("shape", [(1, 17, 13, 13), slow((3, 5, 7)), (1000,)])
def test_an_elementwise_chain_is_one_pass_over_memory(shape: tuple[int, ...], cores: int) -> None:
    func = check(
        [shape, shape],
        lambda emit, x, y: R.nn.relu(emit(R.add(x, emit(R.multiply(y, y))))),
        lambda x, y: np.maximum(x + y * y, 0),
        cores,
    )
    assert not func.body.block.alloc_buffers
    assert not divisions(func)


def divisions(func: Any) -> list[Any]:
    """Quotients in indices, which would keep an access from being read as a vector."""
    found: list[Any] = []
    tvm_ffi.structural_walk(func.body, ((tirx.FloorDiv, tirx.FloorMod), found.append))
    return found


FUNCTIONS: list[tuple[Callable[..., Any], Callable[[Array], Array]]] = [
    (lambda emit, x: R.exp(x), np.exp),
    (lambda emit, x: R.sigmoid(x), lambda x: 1 / (1 + np.exp(-x))),
    (lambda emit, x: R.tanh(x), np.tanh),
    (lambda emit, x: R.erf(x), np.vectorize(math.erf)),
    (lambda emit, x: R.power(x, relax.const(3.0, "float32")), lambda x: x**3),
    (lambda emit, x: R.power(x, relax.const(4.0, "float32")), lambda x: x**4),
    (
        lambda emit, x: R.power(emit(R.abs(x)), relax.const(2.25, "float32")),
        lambda x: abs(x) ** 2.25,
    ),
    (lambda emit, x: R.nn.gelu(x), lambda x: x * (1 + np.vectorize(math.erf)(x / 2**0.5)) / 2),
]


@pytest.mark.parametrize(("body", "expect"), FUNCTIONS)
def test_a_function_written_out_is_within_a_millionth_of_its_value(
    body: Callable[..., Any], expect: Callable[[Array], Array]
) -> None:
    x = np.concatenate([np.linspace(-8, 8, 4001), np.linspace(-1e-2, 1e-2, 1001)])
    x = x.astype("float32")
    func = schedule(fused([x.shape], body), target=native())
    (found,) = outputs(func, native(), [x])
    wanted = expect(x.astype("float64"))
    scale = np.maximum(np.abs(wanted), 1e-3 if body is FUNCTIONS[-1][0] else 0)
    assert np.abs(found - wanted).max() <= 1e-6 * np.abs(wanted).max()
    assert (np.abs(found - wanted) <= 1e-6 * scale + 4e-7 * np.abs(x) * (scale > wanted)).all()


def test_an_exponential_keeps_zero_infinity_and_what_is_not_a_number() -> None:
    x = np.array([-np.inf, np.inf, np.nan, -200, 200, 0, 88.5, -87.3] * 2, "float32")
    func = schedule(fused([x.shape], lambda emit, x: R.exp(x)), target=native())
    (found,) = outputs(func, native(), [x])
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(found, np.exp(x), rtol=1e-6)


@CORES
def test_data_is_moved_without_change(cores: int) -> None:
    shape = (1, 6, 13, 14)
    check(
        [shape],
        lambda emit, x: R.permute_dims(x, [0, 2, 3, 1]),
        lambda x: x.transpose(0, 2, 3, 1),
        cores,
    )
    check(
        [shape],
        lambda emit, x: R.reshape(emit(R.permute_dims(x, [0, 2, 3, 1])), (182, 6)),
        lambda x: x.transpose(0, 2, 3, 1).reshape(182, 6),
        cores,
    )
    check(
        [shape, (1, 3, 13, 14)],
        lambda emit, x, y: R.concat([x, y], 1),
        lambda x, y: np.concatenate([x, y], 1),
        cores,
    )
    check(
        [shape, (1, 6, 13, 3)],
        lambda emit, x, y: R.concat([x, y], 3),
        lambda x, y: np.concatenate([x, y], 3),
        cores,
    )
    check(
        [shape],
        lambda emit, x: R.split(x, 2, axis=1),
        lambda x: tuple(np.split(x, 2, 1)),
        cores,
    )
    check(
        [shape],
        lambda emit, x: R.nn.pad(x, (0, 0, 0, 0, 1, 2, 3, 4)),
        lambda x: np.pad(x, ((0, 0), (0, 0), (1, 2), (3, 4))),
        cores,
    )


@CORES
def test_several_anchors_in_one_function_are_computed_one_after_the_other(cores: int) -> None:
    def attention(emit: Any, q: Any, k: Any, v: Any) -> Any:
        scores = emit(R.matmul(q, emit(R.permute_dims(k, [0, 2, 1]))))
        return R.matmul(emit(R.nn.softmax(scores)), v)

    check(
        [(2, 33, 16)] * 3,
        attention,
        lambda q, k, v: softmax(q @ k.transpose(0, 2, 1), -1) @ v,
        cores,
    )

    def two(emit: Any, x: Any, w: Any, v: Any) -> Any:
        return R.nn.conv2d(emit(R.nn.relu(emit(R.nn.conv2d(x, w, padding=1)))), v)

    check(
        [(1, 6, 9, 9), (8, 6, 3, 3), (5, 8, 1, 1)],
        two,
        lambda x, w, v: convolved(np.maximum(convolved(x, w, padding=1), 0), v),
        cores,
    )


@CORES
def test_pooling_may_follow_its_convolution_in_one_function(cores: int) -> None:
    def body(emit: Any, x: Any, w: Any) -> Any:
        y = emit(R.nn.relu(emit(R.nn.conv2d(x, w, strides=2, padding=3))))
        return R.nn.max_pool2d(y, (3, 3), (2, 2), (1, 1))

    def expect(x: Array, w: Array) -> Array:
        y = np.maximum(convolved(x, w, 2, 3), 0)
        return windows(padded(y, 1, -np.inf), 3, 2).max((-2, -1))

    check([(1, 3, 45, 47), (8, 3, 7, 7)], body, expect, cores)


@CORES
def test_what_a_convolution_stores_may_be_read_twice(cores: int) -> None:
    def body(emit: Any, x: Any, w: Any, v: Any) -> Any:
        y = emit(R.nn.relu(emit(R.nn.conv2d(x, w, padding=1))))
        return R.add(emit(R.nn.conv2d(y, v, padding=1)), y)

    def expect(x: Array, w: Array, v: Array) -> Array:
        y = np.maximum(convolved(x, w, padding=1), 0)
        return convolved(y, v, padding=1) + y

    check([(1, 3, 19, 19), (5, 3, 3, 3), (5, 5, 3, 3)], body, expect, cores)


def test_a_prologue_is_computed_while_its_convolution_is_packed() -> None:
    func = check(
        [(1, 6, 9, 9), (8, 6, 3, 3)],
        lambda emit, x, w: R.nn.conv2d(emit(R.nn.relu(x)), w, padding=1),
        lambda x, w: convolved(np.maximum(x, 0), w, padding=1),
    )
    assert not func.body.block.alloc_buffers


@CORES
def test_other_layouts_are_computed_by_a_more_general_rule(cores: int) -> None:
    def expect(x: Array, w: Array) -> Array:
        return convolved(x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1)).transpose(0, 2, 3, 1)

    check(
        [(1, 9, 11, 8), (3, 3, 8, 12)],
        lambda emit, x, w: R.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO"),
        expect,
        cores,
    )


@CORES
def test_a_function_that_no_rule_reads_is_still_correct(cores: int) -> None:
    """The index and the value of a maximum are reduced together, which is not a plain stage."""
    x = np.random.default_rng(0).standard_normal((9, 100)).astype("float32")
    func = schedule(fused([x.shape], lambda emit, x: R.argmax(x, 1)), target=native(cores))
    (found,) = outputs(func, native(cores), [x])
    assert (found == x.argmax(1)).all()


def test_a_function_of_an_unknown_extent_keeps_its_meaning() -> None:
    length = tirx.Var("n", "int64")
    shape = (length, 16)
    func = fused([shape, shape], lambda emit, x, y: R.add(x, y))  # type: ignore[list-item]
    scheduled = built(schedule(func, target=native(2)), native(2))
    x = np.arange(48, dtype="float32").reshape(3, 16)
    result = tvm.runtime.tensor(np.zeros_like(x))
    scheduled(tvm.runtime.tensor(x), tvm.runtime.tensor(x), result)
    np.testing.assert_array_equal(result.numpy(), x + x)


def test_vectors_are_as_wide_as_those_of_the_target() -> None:
    func = fused([(1, 64, 16, 16)], lambda emit, x: R.nn.relu(x))
    for processor, lanes in [("x86-64-v4", 16), ("haswell", 8), ("x86-64", 4)]:
        scheduled = schedule(func, target=native(processor=processor))
        assert set(vector_loops(scheduled)) == {lanes}


def test_loops_are_shared_among_cores_only_where_there_are_several() -> None:
    shapes = [(1, 16, 28, 28), (16, 16, 3, 3)]
    func = fused(shapes, lambda emit, x, w: R.nn.conv2d(x, w, padding=1))
    assert not parallel_loops(schedule(func, target=native(1)))
    assert parallel_loops(schedule(func, target=native(4)))


def parallel_loops(func: Any) -> int:
    found: list[Any] = []

    def note(loop: Any) -> None:
        if loop.kind == tirx.ForKind.PARALLEL:
            found.append(loop)

    tvm_ffi.structural_walk(func.body, (tirx.For, note))
    return len(found)


def test_scheduling_twice_gives_the_same_function() -> None:
    func = fused([(1, 5, 9, 9), (7, 5, 3, 3)], lambda emit, x, w: R.nn.conv2d(x, w, padding=1))
    first, second = (schedule(func, target=native()) for _ in range(2))
    assert tvm_ffi.structural_equal(first, second, map_free_vars=True)


@pytest.mark.parametrize(
    ("shapes", "body"),
    [
        ([(1, 32, 28, 28), (32, 32, 3, 3)], lambda emit, x, w: R.nn.conv2d(x, w, padding=1)),
        ([(64, 256), (256, 256)], lambda emit, x, w: R.matmul(x, w)),
        ([(12, 64, 128)], lambda emit, x: R.nn.softmax(x)),
    ],
)
def test_a_scheduled_kernel_takes_less_than_a_third_of_the_time_of_plain_loops(
    shapes: Shapes, body: Callable[..., Any]
) -> None:
    """The real factor is 6 to 80; a schedule that silently does nothing has factor one."""
    func = fused(shapes, body)
    arrays = [tvm.runtime.tensor(np.ones(shape, "float32")) for shape in shapes]
    result = tvm.runtime.tensor(np.zeros([int(e) for e in func.params[-1].shape], "float32"))
    kernels = [built(f, native()) for f in (func, schedule(func, target=native()))]
    plain, scheduled = (fastest(lambda k=k: k(*arrays, result)) for k in kernels)
    assert scheduled < plain / 3


def fastest(call: Callable[[], Any]) -> int:
    times = []
    for _ in range(5):
        start = time.thread_time_ns()
        call()
        times.append(time.thread_time_ns() - start)
    return min(times)
