"""Transposed convolutions are computed as convolutions of their phases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm.relax import op as R  # noqa: N812 - as TVM prints it

import collage_dsl as collage
from collage_dsl import parse_graph
from collage_dsl.backends.schedule import schedule_variant
from collage_dsl.backends.schedule.scheduled import VariantError
from collage_dsl.backends.variants import unpromising, unsuitable
from tests.cases import covering
from tests.test_schedule import fused, native
from tests.test_schedule_transposed import transposed
from tests.test_winograd import ERROR, check, computed

pytestmark = pytest.mark.usefixtures("small_loops_are_shared")

Array = Any

BY_PHASES = ["gemm", "winograd2", "winograd4"]
VARIANTS = pytest.mark.parametrize("variant", BY_PHASES)

CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "two taps": ((1, 16, 9, 11), (16, 12, 4, 4), {"strides": 2, "padding": 1}),
    "images": ((3, 17, 6, 5), (17, 20, 4, 4), {"strides": 2, "padding": 1}),
    "three taps": ((1, 8, 7, 7), (8, 9, 6, 6), {"strides": 2, "padding": 2}),
    "longer phases": ((1, 8, 7, 6), (8, 5, 4, 4), {"strides": 2, "output_padding": 1}),
    "no padding": ((1, 8, 6, 7), (8, 6, 6, 6), {"strides": 3}),
    "much padding": ((1, 9, 6, 7), (9, 8, 4, 4), {"strides": 2, "padding": 3}),
    "strides in one direction": ((1, 8, 7, 9), (8, 4, 4, 4), {"strides": (2, 1), "padding": 1}),
    "no strides": ((1, 9, 9, 10), (9, 4, 3, 3), {"padding": 1}),
    "one pixel": ((1, 12, 1, 1), (12, 7, 4, 4), {"strides": 2}),
}


@pytest.mark.parametrize(
    ("name", "cores", "variant"), covering([*CASES][::2], [1, 2], BY_PHASES, rest=[*CASES][1::2])
)
def test_results_are_those_of_adding_the_kernel_for_each_element(
    name: str, variant: str, cores: int
) -> None:
    (image, weight, options), rng = CASES[name], np.random.default_rng(0)
    arrays = [rng.standard_normal(each, "float32") for each in (image, weight, (weight[1], 1, 1))]
    x, w, b = arrays

    def body(emit: Any, x: Any, w: Any, b: Any) -> Any:
        y = emit(R.nn.conv2d_transpose(emit(R.nn.relu(x)), w, **options))
        return R.nn.relu(emit(R.add(y, b)))

    (found,) = computed(variant, arrays, body, cores)

    wanted = transposed(np.maximum(x, 0).astype("float64"), w.astype("float64"), **options)
    check(variant, found, np.maximum(wanted + b, 0), ERROR.get(variant, 2e-6))


def test_phases_of_one_tap_are_matrix_products() -> None:
    x, w = (np.random.default_rng(i).standard_normal((1, 8, 14, 14), "float32") for i in (0, 1))
    w = w[0, :, :6, :4].reshape(8, 6, 2, 2)

    (found,) = computed("gemm", (x, w), lambda emit, x, w: R.nn.conv2d_transpose(x, w, strides=2))

    check("gemm", found, transposed(x, w, 2), 2e-6)


def graph(weight: str, attrs: str, image: str = "1,16,20,20") -> collage.Graph:
    call = f"nn.conv2d_transpose(x, w) [{attrs}]"
    return parse_graph(f"x: f32[{image}]; w = const f32[{weight}]; y = {call}; return y;")


REFUSED = [
    (
        "gemm",
        graph("16,8,3,3", "strides = [2,2]"),
        (
            "gemm computes transposed convolutions whose kernel is some strides long, here it is "
            "3x3 with strides of (2, 2)"
        ),
    ),
    (
        "gemm",
        graph("16,8,4,4", "strides = [2,2], groups = 2"),
        "gemm computes transposed convolutions in one group and without dilation",
    ),
    (
        "gemm",
        graph("16,8,4,4", 'strides = [2,2], kernel_layout = "OIHW"', "1,8,20,20"),
        "gemm computes the layouts NCHW and IOHW, here are NCHW and OIHW",
    ),
    (
        "winograd4",
        graph("16,8,2,2", "strides = [2,2]"),
        "winograd4 computes phases of 2, 3, 5 taps, or 1 and one of these; here are 1x1",
    ),
    (
        "winograd4",
        graph("4,8,4,4", "strides = [2,2]", "1,4,20,20"),
        "winograd4 needs 8 channels or more, here are 4",
    ),
]


@pytest.mark.parametrize(("variant", "graph", "expected"), REFUSED)
def test_other_transposed_convolutions_are_refused(
    variant: str, graph: collage.Graph, expected: str
) -> None:
    assert unsuitable(variant, graph, [1]) == expected


@VARIANTS
def test_a_function_that_is_refused_is_not_scheduled(variant: str) -> None:
    func = fused(
        [(1, 16, 6, 6), (16, 8, 3, 3)],
        lambda emit, x, w: R.nn.conv2d_transpose(x, w, strides=2),
    )
    with pytest.raises(VariantError):
        schedule_variant(func, variant, target=native())


@pytest.mark.parametrize(
    ("image", "measured"),
    [
        ("1,16,4,4", ["gemm"]),
        ("1,16,8,8", ["gemm", "winograd2"]),
        ("1,16,16,16", ["gemm", "winograd2", "winograd4"]),
    ],
)
def test_large_weights_are_measured_for_large_images_only(image: str, measured: list[str]) -> None:
    found = graph("16,8,4,4", "strides = [2,2], padding = [1,1,1,1]", image)
    assert [each for each in ERROR if unpromising(each, found) is None] == measured[1:]
    assert unpromising("gemm", found) is None


def test_two_transposed_convolutions_may_be_in_one_kernel() -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(each, "float32") for each in ((1, 8, 5, 6), (8, 8, 4, 4)))
    v = rng.standard_normal((8, 6, 2, 2), "float32")

    def body(emit: Any, x: Any, w: Any, v: Any) -> Any:
        y = emit(R.nn.conv2d_transpose(x, w, strides=2, padding=1))
        return R.nn.conv2d_transpose(y, v, strides=2)

    (found,) = computed("gemm", (x, w, v), body)

    check("gemm", found, transposed(transposed(x, w, 2, 1), v, 2), 4e-6)
    both = parse_graph("""x: f32[1,8,5,6]; w = const f32[8,8,4,4]; v = const f32[8,6,2,2];
        y = nn.conv2d_transpose(x, w) [strides = [2,2]];
        z = nn.conv2d_transpose(y, v) [strides = [2,2]]; return z;""")
    assert unsuitable("gemm", both, [1, 2]) is None
    assert unpromising("gemm", both) is None
