"""The variants `gemm` and `gemv` compute what `direct` computes, within rounding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tvm
from tvm.relax import op as R  # noqa: N812 - as TVM prints it

from collage_dsl import parse_graph
from collage_dsl.backends.products import unsuitable_for_gemm, unsuitable_for_gemv
from collage_dsl.backends.schedule import schedule_variant
from collage_dsl.backends.schedule.scheduled import VariantError
from tests.test_schedule import Array, Shapes, built, fused, native

pytestmark = pytest.mark.usefixtures("small_loops_are_shared")

CORES = pytest.mark.parametrize("cores", [1, 2])
PROCESSORS = pytest.mark.parametrize("processor", [None, "haswell", "x86-64"])


def computed(
    shapes: Shapes, body: Callable[..., Any], arrays: Sequence[Array], target: Any, variant: str
) -> Any:
    """The outputs of a variant, with its weights prepared as they are at load."""
    func = fused(shapes, body)
    scheduled = schedule_variant(func, variant, target=target)
    inputs = [tvm.runtime.tensor(array) for array in arrays]
    for position, prepare in scheduled.prepared.items():
        weight, packed = inputs[position], prepare.params[1]
        inputs[position] = tvm.runtime.empty([int(e) for e in packed.shape], "float32")
        named = prepare.with_attr("global_symbol", "kernel")
        built(named, target)(weight, inputs[position])
    results = [
        tvm.runtime.tensor(np.full([int(e) for e in p.shape], 7, "float32"))
        for p in func.params[len(arrays) :]
    ]
    built(scheduled.function, target)(*inputs, *results)
    return [result.numpy() for result in results]


def check(
    shapes: Shapes,
    body: Callable[..., Any],
    expect: Callable[..., Array],
    cores: int = 1,
    processor: str | None = None,
    variant: str = "gemm",
) -> None:
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(shape).astype("float32") for shape in shapes]
    (found,) = computed(shapes, body, arrays, native(cores, processor), variant)
    wanted = expect(*[array.astype("float64") for array in arrays])
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= 2e-6 * np.abs(wanted).max()


def pointwise(x: Array, w: Array, strides: int = 1) -> Array:
    return np.einsum("nchw,oc->nohw", x[:, :, ::strides, ::strides], w[:, :, 0, 0])


MATRICES = [(1, 5, 3), (2, 33, 70), (5, 40, 130), (7, 13, 17), (15, 64, 32), (29, 100, 96),
            (128, 96, 64), (131, 800, 40), (50, 1536, 70), (400, 128, 33)]  # fmt: skip


@CORES
@pytest.mark.parametrize(("rows", "inner", "columns"), MATRICES)
def test_a_matrix_product_of_any_shape_is_exact(
    rows: int, inner: int, columns: int, cores: int
) -> None:
    check(
        [(rows, inner), (inner, columns), (columns,)],
        lambda emit, x, w, b: R.add(emit(R.matmul(x, w)), b),
        lambda x, w, b: x @ w + b,
        cores,
    )


@PROCESSORS
@pytest.mark.parametrize(("rows", "inner", "columns"), [(1, 100, 70), (3, 64, 64), (30, 40, 50)])
def test_weights_with_an_output_a_row_are_transposed_while_they_are_packed(
    rows: int, inner: int, columns: int, processor: str | None
) -> None:
    check(
        [(rows, inner), (columns, inner), (columns,)],
        lambda emit, x, w, b: R.add(emit(R.matmul(x, emit(R.permute_dims(w)))), b),
        lambda x, w, b: x @ w.T + b,
        processor=processor,
    )


@CORES
def test_all_matrices_of_a_batch_are_multiplied_with_the_same_weights(cores: int) -> None:
    check([(2, 3, 20, 32), (32, 33)], lambda emit, x, w: R.matmul(x, w), lambda x, w: x @ w, cores)


IMAGES = [((1, 64, 28, 28), 40, 1), ((1, 300, 7, 7), 70, 1), ((2, 24, 15, 15), 33, 2),
          ((3, 40, 7, 7), 32, 1), ((1, 512, 1, 1), 100, 1), ((1, 8, 40, 40), 5, 1),
          ((2, 16, 9, 11), 48, 1)]  # fmt: skip


@CORES
@pytest.mark.parametrize(("image", "channels", "strides"), IMAGES)
def test_a_convolution_of_one_tap_is_a_matrix_product(
    image: tuple[int, ...], channels: int, strides: int, cores: int
) -> None:
    check(
        [image, (channels, image[1], 1, 1)],
        lambda emit, x, w: R.nn.conv2d(x, w, strides=strides),
        lambda x, w: pointwise(x, w, strides),
        cores,
    )


@PROCESSORS
@pytest.mark.parametrize("size", [7, 14, 23])
def test_an_epilogue_is_computed_before_the_sums_are_stored(
    size: int, processor: str | None
) -> None:
    def body(emit: Any, x: Any, w: Any, b: Any, r: Any) -> Any:
        y = emit(R.add(emit(R.nn.conv2d(x, w)), b))
        return R.nn.relu(emit(R.add(y, r)))

    channels = 50
    check(
        [(1, 24, size, size), (channels, 24, 1, 1), (1, channels, 1, 1), (1, channels, size, size)],
        body,
        lambda x, w, b, r: np.maximum(pointwise(x, w) + b + r, 0),
        processor=processor,
    )


def test_a_prologue_is_computed_while_the_rows_are_packed() -> None:
    check(
        [(20, 48), (48, 40)],
        lambda emit, x, w: R.matmul(emit(R.nn.relu(x)), w),
        lambda x, w: np.maximum(x, 0) @ w,
    )


@pytest.mark.parametrize("scale", ["mean", "spread"])
def test_hard_inputs_lose_no_more_than_rounding(scale: str) -> None:
    random = np.random.default_rng(1)
    x = random.standard_normal((1, 200, 7, 7))
    x = x + 10 if scale == "mean" else x * 10.0 ** random.uniform(-3, 3, (1, 200, 1, 1))
    w = random.standard_normal((60, 200, 1, 1))
    arrays = [x.astype("float32"), w.astype("float32")]
    shapes = [array.shape for array in arrays]
    (found,) = computed(shapes, lambda emit, x, w: R.nn.conv2d(x, w), arrays, native(), "gemm")
    wanted = pointwise(*[array.astype("float64") for array in arrays])
    assert np.abs(found - wanted).max() <= 2e-6 * np.abs(wanted).max()


def test_a_weight_that_is_read_twice_is_not_packed() -> None:
    func = fused([(48, 48)] * 2, lambda emit, x, w: R.add(emit(R.matmul(x, w)), w))
    with pytest.raises(VariantError):
        schedule_variant(func, "gemm", target=native())


FEW = [(1, 5, 3), (1, 1000, 1000), (1, 64, 8200), (2, 33, 70), (3, 7, 129), (4, 200, 96)]


@CORES
@pytest.mark.parametrize(("rows", "inner", "columns"), FEW)
def test_a_product_of_few_rows_reads_its_weights_where_they_are(
    rows: int, inner: int, columns: int, cores: int
) -> None:
    check(
        [(rows, inner), (inner, columns), (columns,)],
        lambda emit, x, w, b: R.add(emit(R.matmul(x, w)), b),
        lambda x, w, b: x @ w + b,
        cores,
        variant="gemv",
    )
    check(
        [(rows, 1, inner), (columns, inner), (columns,)],
        lambda emit, x, w, b: R.nn.relu(
            emit(R.add(emit(R.matmul(x, emit(R.permute_dims(w)))), b)),
        ),
        lambda x, w, b: np.maximum(x @ w.T + b, 0),
        cores,
        variant="gemv",
    )


@pytest.mark.parametrize("processor", ["haswell", "x86-64"])
def test_a_narrower_processor_computes_the_same_from_few_rows(processor: str) -> None:
    for body, weight in (
        (lambda emit, x, w: R.matmul(x, w), (70, 50)),
        (lambda emit, x, w: R.matmul(x, emit(R.permute_dims(w))), (50, 70)),
    ):
        check(
            [(4, 70), weight],
            body,
            lambda x, w: x @ (w if w.shape[0] == 70 else w.T),
            processor=processor,
            variant="gemv",
        )


def test_a_convolution_of_one_pixel_has_few_rows() -> None:
    check(
        [(1, 512, 1, 1), (100, 512, 1, 1)],
        lambda emit, x, w: R.nn.conv2d(x, w),
        pointwise,
        variant="gemv",
    )


def test_more_rows_are_refused_by_gemv() -> None:
    func = fused([(5, 48), (48, 48)], lambda emit, x, w: R.matmul(x, w))
    with pytest.raises(VariantError):
        schedule_variant(func, "gemv", target=native())
    few = "x: f32[1,4,8]; w = const f32[8,16]; y = matmul(x, w); return y;"
    many = "x: f32[1,5,8]; w = const f32[8,16]; y = matmul(x, w); return y;"
    assert unsuitable_for_gemv(parse_graph(few)) is None
    assert unsuitable_for_gemv(parse_graph(many))


REFUSED = {
    "y = nn.conv2d(x, w);": "f32[8,8,3,3]",
    "y = nn.conv2d(x, w) [groups = 2];": "f32[8,4,1,1]",
    "y = nn.relu(x);": "f32[8,8,1,1]",
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_is_no_product_is_refused_with_a_reason(call: str) -> None:
    graph = parse_graph(f"x: f32[1,8,9,9]; w = const {REFUSED[call]}; {call} return y;")
    assert unsuitable_for_gemm(graph)
    assert unsuitable_for_gemv(graph)


def test_a_convolution_of_one_tap_and_a_matrix_product_are_taken() -> None:
    image = "x: f32[1,8,9,9]; w = const f32[16,8,1,1]; y = nn.conv2d(x, w); return y;"
    matrix = "x: f32[2,5,8]; w = const f32[16,8]; t = permute_dims(w); y = matmul(x, t); return y;"
    assert unsuitable_for_gemm(parse_graph(image)) is None
    assert unsuitable_for_gemm(parse_graph(matrix)) is None
