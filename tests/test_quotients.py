"""Quotients of a tensor and a scale, computed by products, are those of divisions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx

from collage_dsl.backends.schedule.quotients import with_products
from tests.test_schedule import Array, native

LENGTH = 1 << 16
SCALES = [
    *(0.0371, 1.0, 3.0, 1 / 3, 7.3e-20, 1e-30, 1e-38, 3e-42, 1e-45, 8e30, 3e38),
    *(-0.0371, -1.0, -1e-38, 0.0, np.inf, -np.inf, np.nan),
]


@pytest.fixture(scope="module")
def kernel() -> Any:
    x, y = (tirx.decl_buffer((LENGTH,), "float32", name) for name in "xy")
    scale = tirx.decl_buffer((), "float32", "scale")
    number, lane = tirx.Var("n", "int64"), tirx.Var("lane", "int64")
    place = number * 16 + lane
    value = with_products(tirx.round(tirx.BufferLoad(x, [place]) / tirx.BufferLoad(scale, [])))
    assert not isinstance(value.args[0], tirx.Div)
    stored = tirx.BufferStore(y, value, [place])
    lanes = tirx.For(lane, 0, 16, tirx.ForKind.VECTORIZED, stored)
    loops = tirx.For(number, 0, LENGTH // 16, tirx.ForKind.SERIAL, lanes)
    function = tirx.PrimFunc([x, scale, y], loops).with_attr("global_symbol", "kernel")
    return tvm.compile(tvm.IRModule({"kernel": function}), target=native())["kernel"]


def numbers(scale: np.float32) -> Array:
    """Floats of any size, and those whose quotients are close to the middle of two integers."""
    rng = np.random.default_rng(0)
    of_any_size = rng.integers(0, 1 << 32, LENGTH // 2, np.uint32).view("float32")
    halves = rng.integers(-70000, 70000, LENGTH - len(of_any_size)) + 0.5
    close = (halves * np.float64(scale)).astype("float32")
    close = np.nextafter(close, np.float32(np.inf) * rng.choice([-1, 1], len(close)))
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], "float32")
    return np.concatenate([of_any_size, close[: -len(special)], special]).astype("float32")


@pytest.mark.parametrize("scale", SCALES)
def test_rounded_quotients_are_those_of_divisions(kernel: Any, scale: float) -> None:
    divisor = np.float32(scale)
    with np.errstate(all="ignore"):
        x = numbers(divisor)
        right = np.rint(x / divisor)
    made = tvm.runtime.tensor(np.zeros(LENGTH, "float32"))
    kernel(tvm.runtime.tensor(x), tvm.runtime.tensor(divisor.reshape(())), made)
    np.testing.assert_array_equal(made.numpy(), right)
