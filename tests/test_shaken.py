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
        sums (float[1,2,1,4] x) => (uint8[1,1,1,4] q, float[1,1,1,4] y)
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


X = np.array([[[[1000.0, 500.25, 7.0, np.inf]], [[1.0, -499.75, -7.0, 1.0]]]], "float32")
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
    finite, largest = slice(1, 3), np.abs(right[:3]).max()
    found = np.abs(moved(model, X, SHAKE)[finite] - right[finite])
    assert (found <= 3 * change * largest).all()
    assert found.max() > change * largest / 8


def test_infinite_sums_change_no_others() -> None:
    model = quantized_sums(ONE, 22)
    found = moved(model, X, SHAKE)
    assert np.isfinite(found[:3]).all()
    assert found[3] == np.inf
