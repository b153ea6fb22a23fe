"""Winograd convolutions compute what direct ones do, to a stated precision, or are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import tvm
from numpy.lib.stride_tricks import sliding_window_view
from tvm import relax
from tvm.relax import op as R  # noqa: N812 - as TVM prints it

from collage_dsl import parse_graph
from collage_dsl.backends.schedule import schedule_variant
from collage_dsl.backends.schedule.variants import Scheduled, VariantError
from collage_dsl.backends.schedule.winograd.transforms import Transform
from collage_dsl.backends.variants import VARIANTS
from collage_dsl.backends.winograd import unsuitable
from tests.cases import covering, sample, slow
from tests.test_schedule import built, fused, native

pytestmark = pytest.mark.usefixtures("small_loops_are_shared")

Array = Any
Body = Callable[..., Any]
Pads = tuple[int, int, int, int]

WINOGRAD = pytest.mark.parametrize("variant", ["winograd2", "winograd4"])
EITHER = pytest.mark.parametrize("variant", [slow("winograd2"), "winograd4"])
"""The two have the same loops, for tiles of other sizes."""
ERROR = {"winograd2": 2e-6, "winograd4": 1e-5}
"""The largest difference from float64, as a part of the largest output."""


def convolved(x: Array, w: Array, pads: Pads, groups: int = 1) -> Array:
    """The convolution, directly, in float64."""
    top, left, bottom, right = pads
    x = np.pad(x.astype("float64"), ((0, 0), (0, 0), (top, bottom), (left, right)))
    seen = sliding_window_view(x, w.shape[2:], axis=(2, 3))
    parts = [
        np.einsum("nchwyx,ocyx->nohw", image, weight, optimize=True)
        for image, weight in zip(
            np.split(seen, groups, 1), np.split(w.astype("float64"), groups, 0), strict=True
        )
    ]
    return np.concatenate(parts, 1)


def computed(
    variant: str, arrays: Sequence[Array], body: Body, cores: int = 1, processor: str | None = None
) -> list[Array]:
    """What the kernel of a variant gives for `arrays`, with its weights prepared."""
    target = native(cores, processor)
    scheduled = schedule_variant(fused([a.shape for a in arrays], body), variant, target=target)
    operands = [tvm.runtime.tensor(each) for each in _prepared(scheduled, arrays, target)]
    results = [
        tvm.runtime.tensor(np.full([int(e) for e in p.shape], np.nan, "float32"))
        for p in scheduled.function.params[len(arrays) :]
    ]
    built(scheduled.function, target)(*operands, *results)
    return [result.numpy() for result in results]


def _prepared(scheduled: Scheduled, arrays: Sequence[Array], target: Any) -> list[Array]:
    found = list(arrays)
    for position, function in scheduled.prepared.items():
        shape = [int(extent) for extent in scheduled.function.params[position].shape]
        packed = tvm.runtime.tensor(np.full(shape, np.nan, "float32"))
        built(function.with_attr("global_symbol", "kernel"), target)(
            tvm.runtime.tensor(arrays[position]), packed
        )
        found[position] = packed.numpy()
    return found


def check(variant: str, found: Array, wanted: Array, error: float | None = None) -> None:
    largest = np.abs(wanted).max()
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= (error or ERROR[variant]) * largest
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5 * largest)


# Any shape.


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution: its image, its filters in all, its pads (top, left, bottom, right), groups."""

    image: tuple[int, int, int, int]
    filters: int
    pads: Pads = (1, 1, 1, 1)
    groups: int = 1
    cores: int = 1
    kernel: tuple[int, int] = (3, 3)

    def arrays(self, seed: int = 0) -> list[Array]:
        random = np.random.default_rng(seed)
        shapes = (self.image, (self.filters, self.image[1] // self.groups, *self.kernel))
        return [random.standard_normal(shape).astype("float32") for shape in shapes]

    def body(self, emit: Any, x: Any, w: Any) -> Any:
        return R.nn.conv2d(x, w, padding=self.pads, groups=self.groups)


CHOSEN = (
    Layer((1, 1, 1, 1), 1),
    Layer((1, 17, 13, 13), 33, cores=2),
    Layer((2, 24, 40, 9), 40, (0, 2, 1, 0), cores=2),
    Layer((1, 3, 33, 35), 7, (0, 0, 0, 0)),
    Layer((3, 48, 8, 11), 36, groups=3, cores=2),
)
MORE = (
    Layer((1, 16, 4, 4), 32),
    Layer((1, 64, 7, 7), 64),
    Layer((1, 40, 28, 28), 70),
)


def random_layer(seed: int) -> Layer:
    random = np.random.default_rng(seed)
    groups = int(random.choice([1, 1, 1, 2, 3]))
    least = 1 if groups == 1 else 8
    channels = groups * int(random.integers(least, 70 // groups + 1))
    filters = groups * int(random.integers(1, 70 // groups + 1))
    pads = tuple(int(pad) for pad in random.integers(0, 4, 4))
    height = int(random.integers(max(1, 3 - pads[0] - pads[2]), 41))
    width = int(random.integers(max(1, 3 - pads[1] - pads[3]), 41))
    image = (int(random.integers(1, 4)), channels, height, width)
    return Layer(image, filters, pads, groups, int(random.integers(1, 3)))  # type: ignore[arg-type]


RANDOM = [random_layer(seed) for seed in range(6)]


@pytest.mark.parametrize(
    ("layer", "variant"),
    covering([*CHOSEN, *RANDOM[:2]], ERROR, rest=[*MORE, *RANDOM[2:]]),
    ids=str,
)
def test_a_convolution_of_any_shape_is_precise(layer: Layer, variant: str) -> None:
    x, w = layer.arrays()
    (found,) = computed(variant, [x, w], layer.body, layer.cores)
    check(variant, found, convolved(x, w, layer.pads, layer.groups))


@pytest.mark.slow
@WINOGRAD
@pytest.mark.parametrize("seed", range(100, 200))
def test_any_random_shape_is_precise(seed: int, variant: str) -> None:
    layer = random_layer(seed)
    x, w = layer.arrays(seed)
    (found,) = computed(variant, [x, w], layer.body, layer.cores)
    check(variant, found, convolved(x, w, layer.pads, layer.groups))


@pytest.mark.parametrize(("processor", "variant"), covering(["haswell", "x86-64"], ERROR))
def test_a_narrower_processor_computes_the_same(processor: str, variant: str) -> None:
    layer = Layer((1, 17, 13, 13), 19)
    x, w = layer.arrays()
    (found,) = computed(variant, [x, w], layer.body, processor=processor)
    check(variant, found, convolved(x, w, layer.pads))


# Other kernels.

KERNELS = [
    (variant, kernel)
    for variant, kernels in {
        "winograd2": [(1, 3), (3, 1), (5, 5), (1, 7), (7, 1), (3, 5)],
        "winograd4": [(3, 1), (1, 3), (1, 5), (5, 5), (3, 5)],
    }.items()
    for kernel in kernels
]


@pytest.mark.parametrize(("variant", "kernel"), sample(3, KERNELS), ids=str)
def test_other_kernels_are_precise(variant: str, kernel: tuple[int, int]) -> None:
    """With eight points the error is larger than with four; no more than that of six is allowed."""
    across, down = kernel[1] // 2, kernel[0] // 2
    layer = Layer((1, 40, 17, 19), 36, (down, across, down, across), kernel=kernel, cores=2)
    x, w = layer.arrays()
    (found,) = computed(variant, [x, w], layer.body, layer.cores)
    check(variant, found, convolved(x, w, layer.pads), ERROR["winograd4"])
    text = convolution("[1,40,17,19]", f"[36,40,{kernel[0]},{kernel[1]}]", "groups = 1")
    assert reason(text, variant) is None


# Hard inputs.


def with_a_large_mean(random: Any, x: Array, w: Array) -> tuple[Array, Array]:
    return x + 10, w


def with_heavy_tails(random: Any, x: Array, w: Array) -> tuple[Array, Array]:
    return random.standard_t(2, x.shape), random.standard_t(2, w.shape)


def with_channels_of_all_sizes(random: Any, x: Array, w: Array) -> tuple[Array, Array]:
    sizes = 10.0 ** random.uniform(-3, 3, (1, x.shape[1], 1, 1))
    return x * sizes, w


def with_weights_that_cancel(random: Any, x: Array, w: Array) -> tuple[Array, Array]:
    return x + 10, w - w.mean((1, 2, 3), keepdims=True)


HARD = [
    with_a_large_mean,
    with_heavy_tails,
    with_channels_of_all_sizes,
    with_weights_that_cancel,
]


@pytest.mark.parametrize(("harden", "channels", "variant"), covering(HARD, [16, 70], ERROR))
def test_hard_inputs_are_precise(harden: Callable[..., Any], channels: int, variant: str) -> None:
    layer = Layer((1, channels, 28, 28), 32)
    x, w = harden(np.random.default_rng(1), *layer.arrays())
    x, w = x.astype("float32"), w.astype("float32")
    (found,) = computed(variant, [x, w], layer.body)
    check(variant, found, convolved(x, w, layer.pads))


# What is computed with it.


@pytest.mark.parametrize(("variant", "cores"), covering(ERROR, [1, 2]))
def test_bias_residual_and_activation_are_computed_with_it(variant: str, cores: int) -> None:
    layer = Layer((2, 24, 15, 15), 40)
    random = np.random.default_rng(0)
    bias = random.standard_normal((1, 40, 1, 1)).astype("float32")
    residual = random.standard_normal((2, 40, 15, 15)).astype("float32")

    def body(emit: Any, x: Any, w: Any, b: Any, r: Any) -> Any:
        y = emit(R.add(emit(layer.body(emit, x, w)), b))
        return R.clip(emit(R.nn.relu(emit(R.add(y, r)))), 0.0, 6.0)

    x, w = layer.arrays()
    (found,) = computed(variant, [x, w, bias, residual], body, cores)
    check(variant, found, np.clip(convolved(x, w, layer.pads) + bias + residual, 0, 6))


@EITHER
def test_an_activation_before_it_is_computed_with_it(variant: str) -> None:
    layer = Layer((1, 24, 15, 15), 40)
    x, w = layer.arrays()
    (found,) = computed(variant, [x, w], lambda emit, x, w: layer.body(emit, emit(R.nn.silu(x)), w))
    check(variant, found, convolved(x / (1 + np.exp(-x.astype("float64"))), w, layer.pads))


@EITHER
def test_the_convolution_may_be_a_result_beside_its_activation(variant: str) -> None:
    layer = Layer((1, 16, 9, 9), 20)

    def body(emit: Any, x: Any, w: Any) -> Any:
        y = emit(layer.body(emit, x, w))
        return relax.Tuple([y, emit(R.nn.relu(y))])

    x, w = layer.arrays()
    first, second = computed(variant, [x, w], body)
    wanted = convolved(x, w, layer.pads)
    check(variant, first, wanted)
    check(variant, second, np.maximum(wanted, 0))


@EITHER
def test_a_result_in_another_order_is_computed_after_it(variant: str) -> None:
    layer = Layer((1, 16, 9, 9), 20)
    x, w = layer.arrays()

    def body(emit: Any, x: Any, w: Any) -> Any:
        return R.permute_dims(emit(layer.body(emit, x, w)), [0, 2, 3, 1])

    (found,) = computed(variant, [x, w], body)
    check(variant, found, convolved(x, w, layer.pads).transpose(0, 2, 3, 1))


# The algorithm.


@pytest.mark.parametrize(
    ("outputs", "taps"), [(1, 1), (2, 3), (4, 3), (2, 5), (4, 5), (2, 7), (6, 3)]
)
def test_the_transforms_are_exact(outputs: int, taps: int) -> None:
    """The identity that defines the algorithm, in rational numbers."""
    algorithm = Transform(outputs, taps)
    random = np.random.default_rng(0)
    data = [Fraction(int(n)) for n in random.integers(-9, 9, algorithm.inputs)]
    kernel = [Fraction(int(n)) for n in random.integers(-9, 9, taps)]

    def product(matrix: Any, vector: list[Fraction]) -> list[Fraction]:
        return [
            sum((a * b for a, b in zip(row, vector, strict=True)), Fraction(0)) for row in matrix
        ]

    points = [
        a * b
        for a, b in zip(
            product(algorithm.weights, kernel), product(algorithm.data, data), strict=True
        )
    ]
    expected = [sum(data[n + t] * kernel[t] for t in range(taps)) for n in range(outputs)]
    assert product(algorithm.result, points) == expected


# Refusals.


def reason(text: str, variant: str = "winograd4") -> str | None:
    return unsuitable(parse_graph(f"graph {{ {text} return y; }}"), variant)


def convolution(image: str, weight: str, attrs: str = "padding = [1,1,1,1]") -> str:
    return f"x: f32{image}; w = const f32{weight}; y = nn.conv2d(x, w) [{attrs}];"


REFUSED = {
    "winograd4 computes convolutions with a kernel of sides 3, 5, or 1 and one of these; "
    "this one is 1x1": convolution("[1,16,8,8]", "[16,16,1,1]", "groups = 1"),
    "winograd4 computes convolutions with a kernel of sides 3, 5, or 1 and one of these; "
    "this one is 1x7": convolution("[1,16,8,8]", "[16,16,1,7]", "groups = 1"),
    "winograd4 computes convolutions with strides of 1, here they are (2, 2)": convolution(
        "[1,16,8,8]", "[16,16,3,3]", "strides = [2,2]"
    ),
    "winograd4 computes dilated convolutions with strides of 1, here they are (2, 2)": convolution(
        "[1,16,16,16]", "[16,16,5,5]", "dilation = [2,2], strides = [2,2]"
    ),
    "winograd4 needs groups of 8 channels or more, here they have 1": convolution(
        "[1,16,8,8]", "[16,1,3,3]", "groups = 16"
    ),
    "winograd4 computes kernels with one convolution, this one has 0": "x: f32[4]; y = nn.relu(x);",
    "winograd4 computes no `nn.softmax` in the kernel of a convolution": convolution(
        "[1,16,8,8]", "[16,16,3,3]"
    ).replace("y =", "c =")
    + " y = nn.softmax(c);",
    "winograd4 needs weights that are known when a model is loaded, `v` is computed": (
        "x: f32[1,16,8,8]; w = const f32[16,16,3,3]; v = nn.relu(w); y = nn.conv2d(x, v);"
    ),
}


@pytest.mark.parametrize(("expected", "text"), REFUSED.items())
def test_a_kernel_that_is_no_plain_3x3_convolution_is_refused(expected: str, text: str) -> None:
    assert reason(text) == expected


@WINOGRAD
def test_a_3x3_convolution_with_what_surrounds_it_is_accepted(variant: str) -> None:
    text = (
        "x: f32[1,16,8,8]; w = const f32[16,16,3,3]; b = const f32[16,1,1]; r: f32[1,16,8,8];"
        "s = nn.silu(x); c = nn.conv2d(s, w) [padding = [1,1,1,1]]; d = add(c, b);"
        "e = add(d, r); y = nn.relu(e);"
    )
    assert reason(text, variant) is None


def bodies() -> dict[str, tuple[list[tuple[int, ...]], Body]]:
    image, weight = (1, 16, 8, 8), (16, 16, 3, 3)
    return {
        "1x1": ([image, (16, 16, 1, 1)], lambda emit, x, w: R.nn.conv2d(x, w)),
        "stride 1": ([image, weight], lambda emit, x, w: R.nn.conv2d(x, w, strides=2)),
        "of stride 1": (
            [image, weight],
            lambda emit, x, w: R.nn.conv2d(x, w, dilation=2, strides=2),
        ),
        "layouts": (
            [(1, 8, 8, 16), (3, 3, 16, 16)],
            lambda emit, x, w: R.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO"),
        ),
        "fewer than 8": (
            [image, (16, 1, 3, 3)],
            lambda emit, x, w: R.nn.conv2d(x, w, groups=16),
        ),
        "one convolution": ([image], lambda emit, x: R.nn.relu(x)),
        "no convolution": ([(8, 8), (8, 8)], lambda emit, x, w: R.matmul(x, w)),
        "read by other": (
            [image, weight],
            lambda emit, x, w: relax.Tuple([emit(R.nn.conv2d(x, w)), emit(R.nn.relu(w))]),
        ),
    }


@pytest.mark.parametrize(("why", "variant"), covering(bodies(), ERROR))
def test_a_function_of_another_form_is_refused(why: str, variant: str) -> None:
    shapes, body = bodies()[why]
    with pytest.raises(VariantError, match=why):
        schedule_variant(fused(shapes, body), variant, target=native())


def test_both_tables_name_the_same_variants() -> None:
    from collage_dsl.backends.schedule.variants import VARIANTS as SCHEDULES

    assert list(VARIANTS) == list(SCHEDULES)
