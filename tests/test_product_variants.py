"""The variants `gemm` and `gemv` compute what `direct` computes, within rounding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax import op as R  # noqa: N812 - as TVM prints it

from collage_dsl import parse_graph
from collage_dsl.backends.products import unsuitable_for_gemm, unsuitable_for_gemv
from collage_dsl.backends.schedule import schedule_variant
from collage_dsl.backends.schedule.scheduled import VariantError
from collage_dsl.backends.tvm import Tvm
from collage_dsl.backends.variants import unpromising
from collage_dsl.graph import Toolchain
from tests.cases import covering, slow
from tests.test_schedule import Array, Shapes, built, fused, native

pytestmark = pytest.mark.usefixtures("small_loops_are_shared")

CORES = pytest.mark.parametrize("cores", [slow(1), 2])
"""For two cores, the loops for one are within parallel ones. Many shapes are tried with one."""
RUNNING = [None, "haswell", "x86-64"]


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


MATRICES = [(1, 5, 3), (5, 40, 130), (7, 13, 17), (29, 100, 96),
            (131, 800, 40), (9, 2500, 33), (70, 2053, 17)]  # fmt: skip
MORE_MATRICES = [(2, 33, 70), (15, 64, 32), (128, 96, 64), (50, 1536, 70),
                 (400, 128, 33), (30, 3072, 40)]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "inner", "columns", "cores"), covering(MATRICES, [1, 2], rest=MORE_MATRICES)
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


@pytest.mark.parametrize(
    ("rows", "inner", "columns", "processor"),
    covering([(1, 100, 70), (3, 64, 64), (30, 40, 50)], RUNNING),
)
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


IMAGES = [((1, 521, 13, 13), 33, 1), ((2, 20, 27, 27), 8, 1), ((1, 30, 3, 250), 14, 1),
          ((1, 9, 48, 48), 2, 1), ((2, 24, 15, 15), 33, 2), ((1, 512, 1, 1), 100, 1),
          ((1, 2304, 3, 3), 40, 1)]  # fmt: skip
MORE_IMAGES = [((1, 64, 28, 28), 40, 1), ((1, 770, 29, 16), 7, 1), ((1, 300, 7, 7), 70, 1),
               ((3, 40, 7, 7), 32, 1), ((1, 8, 40, 40), 5, 1), ((2, 16, 9, 11), 48, 1),
               ((1, 521, 5, 5), 33, 1)]  # fmt: skip


@pytest.mark.parametrize(
    ("image", "channels", "strides", "processor", "cores"),
    covering(IMAGES, RUNNING, [1, 2], rest=MORE_IMAGES),
)
def test_a_convolution_of_one_tap_is_a_matrix_product(
    image: tuple[int, ...], channels: int, strides: int, processor: str | None, cores: int
) -> None:
    check(
        [image, (channels, image[1], 1, 1)],
        lambda emit, x, w: R.nn.conv2d(x, w, strides=strides),
        lambda x, w: pointwise(x, w, strides),
        cores,
        processor,
    )


@dataclass(frozen=True)
class Filters:
    """A convolution: the image, the outputs, the sides of the kernel, and how it slides."""

    image: tuple[int, ...]
    outputs: int
    sides: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    @property
    def weight(self) -> tuple[int, ...]:
        return (self.outputs, self.image[1] // self.groups, *self.sides)

    def emitted(self, x: Any, w: Any) -> Any:
        return R.nn.conv2d(
            x,
            w,
            strides=self.strides,
            padding=self.padding,
            dilation=self.dilation,
            groups=self.groups,
        )

    def expected(self, x: Array, w: Array) -> Array:
        (top, left), steps = self.padding, zip(self.sides, self.dilation, strict=True)
        reach = [(side - 1) * step for side, step in steps]
        x = np.pad(x, ((0, 0), (0, 0), (top, top), (left, left)))
        high, wide = (x.shape[2 + i] - reach[i] for i in (0, 1))
        result: Any = 0.0
        for y, z in np.ndindex(*self.sides):
            down, right = y * self.dilation[0], z * self.dilation[1]
            seen = x[:, :, down : down + high, right : right + wide]
            seen = seen[:, :, :: self.strides[0], :: self.strides[1]]
            seen = seen.reshape(seen.shape[0], self.groups, -1, *seen.shape[2:])
            part = w[:, :, y, z].reshape(self.groups, -1, w.shape[1])
            result = result + np.einsum("ngchw,goc->ngohw", seen, part)
        return np.asarray(result.reshape(result.shape[0], -1, *result.shape[3:]))


FILTERS = [
    Filters((1, 64, 14, 14), 64, (3, 3), (2, 2), (1, 1)),
    Filters((1, 200, 14, 14), 96, (3, 3), (2, 2), (1, 1)),
    Filters((2, 48, 13, 13), 70, (3, 3), (1, 1), (1, 1), groups=2),
    Filters((1, 30, 27, 27), 40, (5, 5), (1, 1), (2, 2), groups=2),
    Filters((1, 9, 31, 40), 33, (3, 3), (2, 2), (1, 1)),
    Filters((1, 3, 60, 70), 32, (7, 7), (2, 2), (3, 3)),
    Filters((1, 3, 67, 67), 17, (11, 11), (4, 4), (2, 2)),
    Filters((1, 20, 9, 17), 64, (1, 7), (1, 1), (0, 3)),
    Filters((1, 5, 12, 12), 3, (3, 3), (1, 1), (2, 2), (2, 2)),
    Filters((2, 12, 6, 6), 24, (1, 1), (2, 2), groups=4),
]
MORE_FILTERS = [
    Filters((1, 7, 3, 300), 32, (3, 3), (1, 2), (1, 0)),
    Filters((1, 16, 9, 3), 32, (3, 3)),
    Filters((1, 769, 7, 7), 32, (1, 1)),
]


@pytest.mark.parametrize(
    ("filters", "processor", "cores"),
    covering(FILTERS[2:], RUNNING, [1, 2], rest=[*FILTERS[:2], *MORE_FILTERS]),
    ids=str,
)
def test_a_convolution_of_several_taps_or_groups_is_a_matrix_product(
    filters: Filters, processor: str | None, cores: int
) -> None:
    shapes = [filters.image, filters.weight]
    check(
        shapes,
        lambda emit, x, w: filters.emitted(x, w),
        filters.expected,
        cores,
        processor,
    )


ACROSS_ROWS = [
    Filters((1, 12, 23, 5), 14, (3, 3)),
    Filters((1, 12, 21, 7), 8, (1, 1), (1, 2)),
    Filters((1, 9, 61, 10), 2, (3, 3), (3, 3), (1, 1)),
    Filters((1, 48, 54, 54), 36, (5, 5), (2, 2), (2, 2), groups=2),
]
MORE_ACROSS_ROWS = [Filters((2, 50, 43, 7), 14, (3, 3), (2, 2))]


@pytest.mark.parametrize(
    ("filters", "cores"), covering(ACROSS_ROWS, [1, 2], rest=MORE_ACROSS_ROWS), ids=str
)
def test_a_vector_may_hold_pixels_of_several_rows(filters: Filters, cores: int) -> None:
    check(
        [filters.image, filters.weight],
        lambda emit, x, w: filters.emitted(x, w),
        filters.expected,
        cores,
        "haswell",
    )


@pytest.mark.parametrize(("filters", "cores"), covering(FILTERS[:4], [1, 2]), ids=str)
def test_what_follows_a_convolution_of_several_taps_is_computed_from_its_sums(
    filters: Filters, cores: int
) -> None:
    shapes = [filters.image, filters.weight]
    result = filters.expected(*(np.zeros(shape) for shape in shapes)).shape

    def body(emit: Any, x: Any, w: Any, b: Any, r: Any) -> Any:
        y = emit(R.add(emit(filters.emitted(x, w)), b))
        return R.nn.relu(emit(R.add(y, r)))

    check(
        [*shapes, (1, result[1], 1, 1), result],
        body,
        lambda x, w, b, r: np.maximum(filters.expected(x, w) + b + r, 0),
        cores,
    )


def test_the_image_of_a_convolution_may_be_computed_while_it_is_read() -> None:
    filters = FILTERS[0]
    check(
        [filters.image, filters.weight],
        lambda emit, x, w: filters.emitted(emit(R.nn.relu(x)), w),
        lambda x, w: filters.expected(np.maximum(x, 0), w),
    )


@pytest.mark.parametrize("dimensions", [1, 3])
def test_convolutions_over_one_and_three_dimensions_are_matrix_products(dimensions: int) -> None:
    image, weight = (2, 6, *(9, 8, 21)[-dimensions:]), (33, 6, *(3, 3, 3)[-dimensions:])
    call = R.nn.conv1d if dimensions == 1 else R.nn.conv3d

    def expected(x: Array, w: Array) -> Array:
        axes = tuple(range(2, 2 + dimensions))
        x = np.pad(x, [(0, 0), (0, 0), *[(1, 1)] * dimensions])
        seen = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=axes)
        letters = "ijk"[:dimensions]
        space = "xyz"[:dimensions]
        return np.einsum(f"nc{space}{letters},oc{letters}->no{space}", seen, w)

    check([image, weight], lambda emit, x, w: call(x, w, padding=1), expected)


@pytest.mark.parametrize(("size", "processor"), covering([7, 14, 23], RUNNING))
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


FEW = [(1, 5, 3), (1, 64, 8200), (3, 7, 129), (4, 200, 96)]
MORE_FEW = [(1, 1000, 1000), (2, 33, 70)]


@pytest.mark.parametrize(
    ("rows", "inner", "columns", "cores"), covering(FEW, [1, 2], rest=MORE_FEW)
)
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
    "y = nn.conv2d(x, w) [groups = 8];": "f32[8,1,3,3]",
    'y = nn.conv2d(x, w) [data_layout = "NHWC"];': "f32[8,9,3,3]",
    "y = nn.conv2d(x, w);": "f32[8,8,9,9]",
    "y = nn.relu(x);": "f32[8,8,1,1]",
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_is_no_product_is_refused_with_a_reason(call: str) -> None:
    graph = parse_graph(f"x: f32[1,8,9,9]; w = const {REFUSED[call]}; {call} return y;")
    assert unsuitable_for_gemm(graph)
    assert unsuitable_for_gemv(graph)


SMALL = {
    "one column": ("f32[5,9]", "f32[9,1]", "matmul(x, w)"),
    "one row of weights": ("f32[5,1]", "f32[1,9]", "matmul(x, w)"),
    "one output": ("f32[1,8,4,5]", "f32[1,8,1,1]", "nn.conv2d(x, w)"),
    "one channel": ("f32[1,1,1,1]", "f32[8,1,1,1]", "nn.conv2d(x, w)"),
    "one output of a transposed one": (
        *("f32[1,8,4,5]", "f32[8,1,2,2]", "nn.conv2d_transpose(x, w) [strides = [2, 2]]"),
    ),
    "one pixel of a phase": (
        *("f32[1,8,1,1]", "f32[8,8,2,2]", "nn.conv2d_transpose(x, w) [strides = [2, 2]]"),
    ),
}
"""Sums of which the loops of `gemm` and `gemv` would lack an axis."""


@pytest.mark.parametrize("case", SMALL)
def test_products_with_too_few_channels_are_refused_with_a_reason(case: str) -> None:
    image, weight, call = SMALL[case]
    graph = parse_graph(f"x: {image}; w = const {weight}; y = {call}; return y;")
    assert unsuitable_for_gemm(graph)
    assert unsuitable_for_gemv(graph)


def test_one_channel_of_an_image_of_several_pixels_is_taken() -> None:
    check(
        [(1, 1, 4, 5), (8, 1, 1, 1)],
        lambda emit, x, w: R.nn.conv2d(x, w),
        pointwise,
    )
    image = "x: f32[1,1,4,5]; w = const f32[8,1,1,1]; y = nn.conv2d(x, w); return y;"
    assert unsuitable_for_gemm(parse_graph(image)) is None


@pytest.mark.parametrize(
    ("call", "weight"),
    [("nn.conv2d(x, w)", "8,8,3,3"), ("nn.conv2d(x, w) [groups = 2]", "8,4,1,1")],
)
def test_several_taps_and_groups_are_for_gemm_alone(call: str, weight: str) -> None:
    graph = parse_graph(f"x: f32[1,8,9,9]; w = const f32[{weight}]; y = {call}; return y;")
    assert unsuitable_for_gemm(graph) is None
    assert unsuitable_for_gemv(graph)


def test_a_convolution_of_one_tap_and_a_matrix_product_are_taken() -> None:
    image = "x: f32[1,8,9,9]; w = const f32[16,8,1,1]; y = nn.conv2d(x, w); return y;"
    matrix = "x: f32[2,5,8]; w = const f32[16,8]; t = permute_dims(w); y = matmul(x, t); return y;"
    assert unsuitable_for_gemm(parse_graph(image)) is None
    assert unsuitable_for_gemm(parse_graph(matrix)) is None


@pytest.mark.parametrize("variant", ["gemm", "winograd4"])
def test_weights_are_fetched_ahead_on_any_number_of_cores(variant: str) -> None:
    shapes = [(1, 64, 14, 14), (64, 64, 3, 3)]
    func = fused(shapes, lambda emit, x, w: R.nn.conv2d(x, w, padding=1))
    for cores in (1, 2):
        function = schedule_variant(func, variant, target=native(cores)).function
        assert "prefetch" in function.script()


@pytest.mark.parametrize(
    ("rows", "inner", "fetched"), [(64, 48, True), (64, 3072, True), (8, 48, True), (2, 48, False)]
)
def test_weights_of_products_are_fetched_ahead_for_several_rows(
    rows: int, inner: int, fetched: bool
) -> None:
    func = fused([(rows, inner), (inner, 80)], lambda emit, x, w: R.matmul(x, w))
    for cores in (1, 2):
        function = schedule_variant(func, "gemm", target=native(cores)).function
        assert ("prefetch" in function.script()) == fetched


STRIDED = "y = nn.conv2d(x, w) [strides = [2, 2], padding = [1, 1, 1, 1]];"
MEASURED = {
    ("8,64,28,28", "64,64,3,3", STRIDED): True,
    ("1,64,240,240", "64,64,3,3", STRIDED): False,
    ("1,64,28,28", "64,64,3,3", "y = nn.conv2d(x, w) [padding = [1, 1, 1, 1]];"): False,
    ("1,64,20,20", "64,64,1,1", "y = nn.conv2d(x, w);"): True,
    ("1,64,21,21", "64,64,1,1", "y = nn.conv2d(x, w);"): False,
}


@pytest.mark.parametrize(("image", "weight", "call"), MEASURED)
def test_gemm_is_measured_where_it_may_be_the_fastest(image: str, weight: str, call: str) -> None:
    graph = parse_graph(f"x: f32[{image}]; w = const f32[{weight}]; {call} return y;")
    assert unsuitable_for_gemm(graph) is None
    assert (unpromising("gemm", graph) is None) == MEASURED[image, weight, call]


LARGE = "x: f32[1,64,56,56]; w = const f32[64,64,1,1]; y = nn.conv2d(x, w); return y;"
BLOCK = """
    x: f32[1,24,14,14]; w = const f32[96,24,1,1]; v = const f32[96,1,3,3];
    h = nn.conv2d(x, w);
    y = nn.conv2d(h, v) [groups = 96, padding = [1, 1, 1, 1]];
    return y;
"""


@pytest.mark.parametrize(("processor", "measured"), [("haswell", True), ("znver4", False)])
@pytest.mark.parametrize("text", [LARGE, BLOCK])
def test_gemm_is_measured_for_more_kernels_on_processors_with_few_registers(
    text: str, processor: str, measured: bool
) -> None:
    toolchain = Toolchain("native", options={"mcpu": processor})
    assert (Tvm().unpromising("gemm", parse_graph(text), toolchain) is None) == measured


@pytest.mark.parametrize("image", [(40, 24), (1, 24, 6, 6)])
def test_what_packs_weights_says_that_its_tensors_share_no_memory(image: tuple[int, ...]) -> None:
    if len(image) == 2:
        func = fused([image, (24, 48)], lambda _, x, w: R.matmul(x, w))
    else:
        func = fused([image, (32, 24, 1, 1)], lambda _, x, w: R.nn.conv2d(x, w))

    (prepare,) = schedule_variant(func, "gemm", target=native()).prepared.values()

    assert prepare.attrs["tirx.noalias"]


@pytest.mark.parametrize("processor", RUNNING)
@pytest.mark.parametrize("padding", [(1, 0, 0, 0), slow((0, 1, 2, 0))])
def test_the_padding_of_a_convolution_of_one_tap_is_zeros(
    padding: tuple[int, int, int, int], processor: str | None
) -> None:
    top, left, bottom, right = padding

    def expected(x: Array, w: Array) -> Array:
        return pointwise(np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right))), w)

    check(
        [(1, 1, 6, 3), (16, 1, 1, 1)],
        lambda emit, x, w: R.nn.conv2d(emit(R.abs(x)), w, padding=padding),
        lambda x, w: expected(np.abs(x), w),
        processor=processor,
    )


def test_a_weight_that_the_kernel_computes_is_not_packed() -> None:
    shapes = [(5, 40), (40, 17)]

    def body(emit: Any, x: Any, w: Any) -> Any:
        weight = emit(R.nn.relu(w))
        return relax.Tuple([emit(R.matmul(x, weight)), weight])

    with pytest.raises(VariantError, match="no sum of this function"):
        schedule_variant(fused(shapes, body), "gemm", target=native())


def test_what_is_computed_before_a_transposed_convolution_is_kept_once() -> None:
    def expected(x: Array, w: Array) -> Array:
        sums = np.einsum("nchw,coij->nohiwj", np.sin(x), w)
        n, o, h, i, width, j = sums.shape
        return sums.reshape(n, o, h * i, width * j)

    check(
        [(1, 6, 7, 5), (6, 16, 3, 3)],
        lambda emit, x, w: R.nn.conv2d_transpose(emit(R.sin(x)), w, strides=3),
        expected,
    )
