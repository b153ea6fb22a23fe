"""Native schedules compute convolutions of images of any sides, also with packed weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from tvm.relax import op as R  # noqa: N812 - as TVM prints it

import collage_dsl as collage
from collage_dsl.backends.schedule import schedule, schedule_variant
from collage_dsl.backends.schedule.scheduled import VariantError
from tests.cases import covering
from tests.reference import run_onnx
from tests.test_product_variants import FILTERS, RUNNING, Filters
from tests.test_schedule import Array, built, native
from tests.test_schedule_slices import Shape, arrays_of, of_any_size
from tests.test_schedule_slices import check as check_direct
from tests.test_schedule_transposed import CASES, MORE_CASES, transposed

pytestmark = pytest.mark.usefixtures("small_loops_are_shared")

SIDES = (1, 2, 3, 7, 8, 13, 31, 40)
"""Of images: shorter and longer than a vector, in one strip and in several."""


def check(
    shapes: Sequence[Shape],
    body: Callable[..., Any],
    expect: Callable[..., Array],
    every: Sequence[dict[str, int]],
    cores: int = 1,
    processor: str | None = None,
) -> None:
    """For each choice of sizes, one function of `gemm` computes what is expected."""
    target = native(cores, processor)
    scheduled = schedule_variant(of_any_size(shapes, body), "gemm", target=target)
    kernel = built(scheduled.function, target)
    packing = {
        position: (built(prepare.with_attr("global_symbol", "kernel"), target), prepare.params[1])
        for position, prepare in scheduled.prepared.items()
    }
    assert packing
    for sizes in every:
        arrays = arrays_of(shapes, sizes)
        right = expect(*(each.astype("float64") for each in arrays))
        inputs = list(map(tvm.runtime.tensor, arrays))
        for position, (pack, packed) in packing.items():
            weight = inputs[position]
            inputs[position] = tvm.runtime.empty([int(e) for e in packed.shape], "float32")
            pack(weight, inputs[position])
        result = tvm.runtime.tensor(np.full(right.shape, 7, "float32"))
        kernel(*inputs, result)
        error = np.abs(result.numpy() - right).max(initial=0)
        assert error <= 2e-6 * np.abs(right).max(initial=1), sizes


def fitting(filters: Filters, sides: Sequence[int] = SIDES) -> list[dict[str, int]]:
    """The sides of images that are as large as the filters, with any batch."""
    steps = zip(filters.sides, filters.dilation, filters.padding, strict=True)
    least = [(side - 1) * step + 1 - 2 * pad for side, step, pad in steps]
    fit = [(h, w) for h, w in product(sides, sides) if h >= least[0] and w >= least[1]]
    return [{"b": 1 + n % 2, "h": h, "w": w} for n, (h, w) in enumerate(fit)]


OTHERS = [
    Filters((1, 4, 9, 9), 6, (3, 3), (3, 3), (1, 1)),
    Filters((1, 4, 9, 9), 6, (3, 3), (1, 1), (9, 9), (6, 6)),
    Filters((1, 8, 9, 9), 5, (1, 1)),
    Filters((1, 500, 9, 9), 5, (1, 1)),
    Filters((1, 60, 9, 9), 13, (3, 3), (1, 1), (1, 1)),
]


@pytest.mark.parametrize(
    ("filters", "processor", "cores"), covering([*FILTERS[2:], *OTHERS], RUNNING, [1, 2]), ids=str
)
def test_one_kernel_for_images_of_any_sides(
    filters: Filters, processor: str | None, cores: int
) -> None:
    check(
        [("b", filters.image[1], "h", "w"), filters.weight],
        lambda emit, x, w: filters.emitted(x, w),
        filters.expected,
        fitting(filters),
        cores,
        processor,
    )


@pytest.mark.parametrize(
    ("height", "width"), [("h", 9), (9, "w"), ("h", "h"), ("w", 1), (1, "w")], ids=str
)
def test_one_side_may_be_known(height: int | str, width: int | str) -> None:
    filters = Filters((1, 6, 9, 9), 8, (3, 3), (1, 1), (1, 1))
    check(
        [(1, 6, height, width), filters.weight],
        lambda emit, x, w: filters.emitted(x, w),
        filters.expected,
        fitting(filters, (1, 2, 9, 30)),
    )


def test_padding_may_differ_at_each_side_and_have_any_value() -> None:
    def body(emit: Any, x: Any, w: Any) -> Any:
        return R.nn.conv2d(emit(R.nn.pad(x, [0, 0, 0, 0, 2, 0, 1, 3], "constant", 0.5)), w)

    def expected(x: Array, w: Array) -> Array:
        x = np.pad(x, ((0, 0), (0, 0), (2, 0), (1, 3)), constant_values=0.5)
        return Filters(x.shape, len(w), (3, 3)).expected(x, w)

    sizes = [{"h": h, "w": w} for h, w in product((1, 2, 9, 30), repeat=2)]
    check([(1, 6, "h", "w"), (8, 6, 3, 3)], body, expected, sizes)


def test_what_is_around_a_convolution_is_computed_with_it() -> None:
    filters = Filters((1, 6, 9, 9), 10, (3, 3), (2, 2), (1, 1))

    def body(emit: Any, x: Any, w: Any, b: Any) -> Any:
        y = emit(filters.emitted(emit(R.exp(x)), w))
        return R.nn.relu(emit(R.add(y, b)))

    check(
        [("b", 6, "h", "w"), filters.weight, (1, 10, 1, 1)],
        body,
        lambda x, w, b: np.maximum(filters.expected(np.exp(x), w) + b, 0),
        fitting(filters),
    )


def test_a_shortcut_is_added_to_the_sums() -> None:
    filters = Filters((1, 10, 9, 9), 10, (3, 3), (1, 1), (1, 1))

    def body(emit: Any, x: Any, w: Any) -> Any:
        return R.nn.relu(emit(R.add(emit(filters.emitted(x, w)), x)))

    check(
        [("b", 10, "h", "w"), filters.weight],
        body,
        lambda x, w: np.maximum(filters.expected(x, w) + x, 0),
        fitting(filters),
    )


@pytest.mark.parametrize("taps", [1, 5])
def test_a_signal_of_any_length(taps: int) -> None:
    def expected(x: Array, w: Array) -> Array:
        seen = np.lib.stride_tricks.sliding_window_view(x, taps, axis=2)
        return np.einsum("ncxi,oci->nox", seen, w)

    check(
        [(2, 6, "s"), (9, 6, taps)],
        lambda emit, x, w: R.nn.conv1d(x, w),
        expected,
        [{"s": s} for s in (5, 6, 16, 30, 224, 225, 500)],
    )


def test_an_image_without_pixels() -> None:
    filters = Filters((1, 6, 9, 9), 8, (1, 1))
    check(
        [(1, 6, "h", "w"), filters.weight],
        lambda emit, x, w: filters.emitted(x, w),
        lambda x, w: np.zeros((1, 8, *x.shape[2:])),
        [{"h": 0, "w": 5}, {"h": 5, "w": 0}],
    )


IMAGES = [
    {"b": 1 + n % 2, "h": h, "w": w} for n, (h, w) in enumerate(product((1, 2, 5, 19), repeat=2))
]


@pytest.mark.parametrize(
    ("image", "weight", "options", "cores"), covering(CASES, [1, 2], rest=MORE_CASES)
)
def test_a_transposed_convolution_of_any_sides(
    image: tuple[int, ...], weight: tuple[int, ...], options: dict[str, Any], cores: int
) -> None:
    shapes: list[Shape] = [("b", image[1], "h", "w"), weight]
    func = schedule(
        of_any_size(shapes, lambda emit, x, w: R.nn.conv2d_transpose(x, w, **options)),
        target=native(cores),
    )
    check_direct(
        func, shapes, lambda x, w: transposed(x, w, **options), of_some(options), native(cores)
    )


def of_some(options: dict[str, Any]) -> list[dict[str, int]]:
    """Images from which a transposed convolution makes pixels."""
    return [each for each in IMAGES if min(each["h"], each["w"]) > options.get("padding", 0)]


@pytest.mark.parametrize(
    ("weight", "options", "processor", "cores"),
    covering(
        [
            ((7, 5, 2, 2), {"strides": 2}),
            ((40, 12, 4, 4), {"strides": 2, "padding": 1}),
            ((6, 4, 8, 4), {"strides": (4, 2), "padding": 2}),
        ],
        RUNNING,
        [1, 2],
    ),
)
def test_a_transposed_convolution_of_any_sides_has_packed_weights(
    weight: tuple[int, ...], options: dict[str, Any], processor: str | None, cores: int
) -> None:
    check(
        [("b", weight[0], "h", "w"), weight],
        lambda emit, x, w: R.nn.conv2d_transpose(x, w, **options),
        lambda x, w: transposed(x, w, **options),
        of_some(options),
        cores,
        processor,
    )


def test_a_transposed_convolution_of_one_axis_and_any_length() -> None:
    def expected(x: Array, w: Array) -> Array:
        return transposed(x[:, :, None], w[:, :, None], strides=(1, 4))[:, :, 0]

    shapes: list[Shape] = [(2, 6, "s"), (6, 5, 7)]
    func = of_any_size(shapes, lambda emit, x, w: R.nn.conv1d_transpose(x, w, strides=4))
    sizes = [{"s": s} for s in (1, 2, 7, 8, 33, 70)]
    check_direct(schedule(func, target=native()), shapes, expected, sizes, native())


def test_what_follows_a_transposed_convolution_is_computed_with_it() -> None:
    shapes: list[Shape] = [("b", 6, "h", "w"), (6, 5, 3, 3), (1, 5, 1, 1)]

    def body(emit: Any, x: Any, w: Any, b: Any) -> Any:
        return R.nn.relu(emit(R.add(emit(R.nn.conv2d_transpose(x, w, strides=2, padding=1)), b)))

    check_direct(
        schedule(of_any_size(shapes, body), target=native()),
        shapes,
        lambda x, w, b: np.maximum(transposed(x, w, 2, 1) + b, 0),
        [each for each in IMAGES if min(each["h"], each["w"]) > 1],
        native(),
    )


@pytest.mark.parametrize(
    ("weight", "call"),
    [
        ((6, 8, 3, 3), lambda emit, x, w: R.nn.conv2d_transpose(x, w, strides=2)),
        ((6, 1, 3, 3), lambda emit, x, w: R.nn.conv2d(x, w, groups=6)),
    ],
    ids=["phases of other taps", "depthwise"],
)
def test_some_convolutions_of_any_sides_have_no_packed_weights(weight: Any, call: Any) -> None:
    func = of_any_size([(1, 6, "h", "w"), weight], call)
    with pytest.raises(VariantError):
        schedule_variant(func, "gemm", target=native())


def test_a_model_of_grey_images_of_any_sides_has_packed_weights() -> None:
    """The second kernel takes the sides of its image as numbers, since they are no plain names."""
    spec = collage.load(
        text="""collage 1;
        target t on llvm {
          variants [gemm];
          rules combine_by_primitives(op_call_by_kind(), using: [kind(anchor -> broadcast)]);
        }"""
    )["t"]
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["": 17]> g (float[n, 1, h, w] x) => (y) {
            a = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, v, c)
            y = Conv <pads = [1, 1, 1, 1]> (a, u)
        }"""
    )
    random = np.random.default_rng(0)
    for name, shape in (("v", (8, 1, 3, 3)), ("c", (8,)), ("u", (6, 8, 3, 3))):
        values = random.normal(0, 1, shape).astype("float32")
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))

    made = collage.compile(model, [spec], cost=lambda kernel: 1e-6, race_seconds=0.01)

    assert [kernel.variant for kernel in made.plan.kernels] == ["gemm", "gemm"]
    for n, h, w in ((1, 5, 7), (2, 40, 33), (3, 1, 2)):
        x = random.normal(0, 1, (n, 1, h, w)).astype("float32")
        right = run_onnx(model, {"x": x})["y"]
        np.testing.assert_allclose(made.run({"x": x})["y"], right, rtol=1e-4, atol=1e-4)
