"""Winograd's algorithm computes dilated convolutions over an image of its phases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm.relax import op as R  # noqa: N812 - as TVM prints it

from tests.cases import covering
from tests.test_product_variants import Filters
from tests.test_winograd import ERROR, check, computed, reason

pytestmark = pytest.mark.usefixtures("small_loops_are_shared")

Array = Any

DILATED = {
    "phases of several lengths": Filters((2, 17, 29, 31), 20, (3, 3), (1, 1), (4, 4), (4, 4)),
    "other steps each way": Filters((1, 16, 30, 33), 20, (3, 3), (1, 1), (0, 1), (2, 3)),
    "five taps": Filters((1, 8, 30, 33), 20, (5, 5), (1, 1), (4, 4), (2, 2)),
    "one row of taps": Filters((1, 16, 30, 33), 20, (1, 3), (1, 1), (0, 2), (1, 2)),
    "groups": Filters((1, 32, 20, 23), 40, (3, 3), (1, 1), (2, 2), (2, 2), groups=2),
}
MORE = {
    "padding as the dilation": Filters((1, 24, 28, 28), 20, (3, 3), (1, 1), (2, 2), (2, 2)),
    "one direction": Filters((1, 16, 30, 33), 20, (3, 3), (1, 1), (1, 1), (1, 2)),
    "uneven padding": Filters((1, 16, 21, 24), 20, (3, 3), (1, 1), (1, 3), (2, 2)),
    "few rows": Filters((1, 16, 8, 33), 20, (3, 3), (1, 1), (0, 2), (2, 2)),
}


@pytest.mark.parametrize(("name", "cores", "variant"), covering(DILATED, [1, 2], ERROR, rest=MORE))
def test_results_are_those_of_a_direct_convolution(name: str, variant: str, cores: int) -> None:
    filters, rng = {**DILATED, **MORE}[name], np.random.default_rng(0)
    x = rng.standard_normal(filters.image, "float32")
    w = rng.standard_normal(filters.weight, "float32")
    b = rng.standard_normal((filters.outputs, 1, 1), "float32")

    def body(emit: Any, x: Any, w: Any, b: Any) -> Any:
        return R.nn.relu(emit(R.add(emit(filters.emitted(emit(R.nn.relu(x)), w)), b)))

    (found,) = computed(variant, (x, w, b), body, cores)

    wanted = filters.expected(np.maximum(x, 0).astype("float64"), w.astype("float64"))
    check(variant, found, np.maximum(wanted + b, 0))


@pytest.mark.parametrize(
    ("image", "dilation", "expected"),
    [
        ("[1,16,16,16]", 4, None),
        (
            "[1,16,11,12]",
            4,
            (
                "winograd4 computes dilated convolutions whose result is twice as long as the "
                "dilation, here it is 3x4 with dilation of (4, 4)"
            ),
        ),
    ],
)
def test_phases_of_one_pixel_are_refused(image: str, dilation: int, expected: str | None) -> None:
    text = (
        f"x: f32{image}; w = const f32[16,16,3,3];"
        f"y = nn.conv2d(x, w) [dilation = [{dilation},{dilation}]];"
    )
    assert reason(text) == expected
