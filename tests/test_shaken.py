"""Models of which the numbers differ by rounding give what differs by as much."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from collage_dsl.realization.shaken import SHAKE, SUM_SHAKE, with_shaken_values
from tests.reference import run_onnx

Array = np.ndarray[Any, Any]


def quantized_sums(sums: str, opset: int) -> onnx.ModelProto:
    """Sums of products of `x`, as they are and quantized."""
    return onnx.parser.parse_model(f"""
        <ir_version: 10, opset_import: ["" : {opset}]>
        sums (float[1,2,1,20] x) => (uint8[1,1,1,20] q, float[1,1,1,20] y)
        <float[1,2,1,1] w = {{1, 1}}, float s = {{1}}, uint8 z = {{0}}>
        {{
            {sums}
            q = QuantizeLinear (y, s, z)
        }}
    """)


def moved(model: onnx.ModelProto, x: Array, unit: float) -> Array:
    """What some changed models quantize, each in a row."""
    changed = with_shaken_values(model, np.random.default_rng(0), unit)
    value = changed.graph.node[-1].input[0]
    changed.graph.output.append(onnx.helper.make_tensor_value_info(value, 1, None))
    return run_onnx(changed, {"x": x})[value].ravel()


SMALL = slice(1, 19)
X = np.ones((1, 2, 1, 20), "float32")
X[..., 0] = 1000
X[0, :, 0, SMALL] = np.array([500.25, -499.75])[:, None]
X[0, 0, 0, 19] = np.inf
ONE = "y = Conv (x, w)"
TWO = "v = Conv (x, w) u = Concat <axis = 1> (v, v) y = Conv (u, w)"


@pytest.mark.parametrize("opset", [17, 22])
@pytest.mark.parametrize(("sums", "change"), [(ONE, SUM_SHAKE), (TWO, SHAKE)])
def test_small_sums_are_changed_by_a_part_of_the_largest(
    sums: str, change: float, opset: int
) -> None:
    """By more where one operator sums: integers of an earlier one would hide those of the next."""
    model = quantized_sums(sums, opset)
    right = run_onnx(model, {"x": X})["y"].ravel()
    found = np.abs(moved(model, X, SHAKE)[SMALL] - right[SMALL])
    assert (found <= 3 * change * right[0]).all()
    assert found.max() > change * right[0] / 2


def test_infinite_sums_change_no_others() -> None:
    model = quantized_sums(ONE, 22)
    found = moved(model, X, SHAKE)
    assert np.isfinite(found[:19]).all()
    assert found[19] == np.inf
