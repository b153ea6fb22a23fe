"""Winograd's algorithm computes convolutions with strides over an image that is folded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm.relax import op as R  # noqa: N812 - as TVM prints it

from collage_dsl import parse_graph
from collage_dsl.backends.variants import unpromising
from collage_dsl.backends.winograd import unsuitable
from tests.cases import covering
from tests.test_product_variants import Filters, computed
from tests.test_schedule import native

ERROR = {"winograd2": 4e-6, "winograd4": 1e-5}
"""Of the largest result. With an even number of taps, there is one point more than usual."""

STRIDED = [
    Filters((1, 3, 64, 64), 40, (7, 7), (2, 2), (3, 3)),
    Filters((1, 3, 67, 67), 32, (11, 11), (4, 4), (2, 2)),
    Filters((2, 20, 27, 31), 33, (5, 5), (2, 2)),
    Filters((1, 17, 30, 23), 20, (5, 7), (2, 2), (2, 0)),
    Filters((1, 1, 50, 41), 16, (9, 9), (3, 3), (1, 4)),
]


@pytest.mark.parametrize(
    ("filters", "variant", "processor", "cores"),
    covering(STRIDED, ERROR, [None, "x86-64"], [1, 2]),
    ids=str,
)
def test_a_convolution_with_strides_is_precise(
    filters: Filters, variant: str, processor: str | None, cores: int
) -> None:
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(each) for each in (filters.image, filters.weight)]
    result = filters.expected(*arrays)
    arrays.append(random.standard_normal((1, result.shape[1], 1, 1)))

    def body(emit: Any, x: Any, w: Any, b: Any) -> Any:
        return R.nn.relu(emit(R.add(emit(filters.emitted(x, w)), b)))

    given = [array.astype("float32") for array in arrays]
    shapes = [array.shape for array in arrays]
    (found,) = computed(shapes, body, given, native(cores, processor), variant)
    wanted = np.maximum(filters.expected(*map(np.float64, given[:2])) + given[2], 0)
    assert np.abs(found - wanted).max() <= ERROR[variant] * np.abs(wanted).max()


CALLS = {
    ("64,3,7,7", "[2,2]", 1): True,
    ("96,3,11,11", "[4,4]", 1): True,
    ("64,3,3,3", "[2,2]", 1): False,
    ("64,3,7,7", "[2,1]", 1): False,
    ("64,3,7,7", "[7,7]", 1): False,
    ("63,1,7,7", "[2,2]", 3): False,
}


@pytest.mark.parametrize(("weight", "strides", "groups"), CALLS)
def test_a_kernel_has_to_be_three_to_five_strides_long(
    weight: str, strides: str, groups: int
) -> None:
    call = f"nn.conv2d(x, w) [strides = {strides}, groups = {groups}]"
    graph = parse_graph(f"x: f32[1,3,224,224]; w = const f32[{weight}]; y = {call}; return y;")
    for variant in ERROR:
        assert (unsuitable(graph, variant) is None) == CALLS[weight, strides, groups]


@pytest.mark.parametrize(
    ("weight", "strides", "measured"),
    [
        ("64,3,7,7", 2, ["winograd4"]),
        ("96,3,11,11", 4, ["winograd2", "winograd4"]),
        ("64,3,3,3", 1, ["winograd4"]),
    ],
)
def test_small_tiles_are_measured_for_large_images_only_with_long_strides(
    weight: str, strides: int, measured: list[str]
) -> None:
    call = f"nn.conv2d(x, w) [strides = [{strides},{strides}]]"
    graph = parse_graph(f"x: f32[1,3,224,224]; w = const f32[{weight}]; y = {call}; return y;")

    assert [variant for variant in sorted(ERROR) if unpromising(variant, graph) is None] == measured
