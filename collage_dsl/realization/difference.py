"""How far arrays are from what they should be, and how far they may be."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

TOLERANCE = 1e-4
"""
Allowed difference, relative to the largest magnitude of the expected output. For dtypes with less
precision, it is a few units of that precision. Integers must be equal.
"""

_EXACT = "biu"
"""The kinds of dtypes, in numpy's letters, whose values are not rounded."""


def tolerance(expected: Array) -> float:
    """The allowed relative error for the right output `expected`."""
    if expected.dtype.kind in _EXACT:
        return 0.0
    return max(TOLERANCE, 4 * float(np.finfo(expected.dtype).eps))


def relative_error(actual: Array, expected: Array) -> float:
    """
    The largest absolute difference, divided by the largest expected magnitude. Infinite if shapes,
    dtypes or integers differ, or if one side is NaN or infinite and the other side is not the same.
    """
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return float("inf")
    if expected.dtype.kind in _EXACT:
        return 0.0 if np.array_equal(actual, expected) else float("inf")
    finite = np.isfinite(expected)
    if not np.array_equal(actual[~finite], expected[~finite], equal_nan=True):
        return float("inf")
    wanted, found = expected[finite].astype(np.float64), actual[finite].astype(np.float64)
    if not wanted.size:
        return 0.0
    largest, difference = float(np.abs(wanted).max()), float(np.abs(found - wanted).max())
    if not np.isfinite(difference):
        return float("inf")
    return difference / largest if largest else difference
