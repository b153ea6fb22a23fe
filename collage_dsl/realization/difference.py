"""How far arrays are from what they should be, and how far they may be."""

from collections.abc import Callable, Iterable
from typing import Any

import ml_dtypes
import numpy as np

from collage_dsl.graph.arrays import Array

TOLERANCE = 1e-4
"""
Allowed difference, relative to the largest magnitude of the expected output. For dtypes with less
precision, it is a few units of that precision. Integers must be equal.
"""

_EXACT = "biu"
"""The kinds of dtypes, in numpy's letters, whose values are not rounded."""

_NOISE = 4
"""How much larger an error may be than what rounding does to the right output."""

_NOISE_OF_ALL_DIGITS = 20
"""The same where rounding changes the output by as much as its largest value."""


def tolerance(expected: Array) -> float:
    """The allowed relative error for the right output `expected`."""
    if is_exact(expected.dtype):
        return 0.0
    return max(TOLERANCE, 4 * float(ml_dtypes.finfo(expected.dtype).eps))


def is_exact(dtype: np.dtype[Any]) -> bool:
    """Whether values of a dtype are not rounded: whole numbers, of any width, and bool."""
    return dtype.kind in _EXACT or dtype.name.startswith(("int", "uint"))


def relative_error(actual: Array, expected: Array) -> float:
    """
    The largest absolute difference, divided by the largest expected magnitude. Infinite if shapes,
    dtypes or integers differ, or if one side is NaN or infinite and the other side is not the same.
    """
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return float("inf")
    if is_exact(expected.dtype):
        return 0.0 if np.array_equal(actual, expected) else float("inf")
    finite = np.isfinite(expected.astype(np.float64))
    if not np.array_equal(actual[~finite], expected[~finite], equal_nan=True):
        return float("inf")
    wanted, found = expected[finite].astype(np.float64), actual[finite].astype(np.float64)
    if not wanted.size:
        return 0.0
    largest, difference = float(np.abs(wanted).max()), float(np.abs(found - wanted).max())
    if not np.isfinite(difference):
        return float("inf")
    return difference / largest if largest else difference


def compared(
    actual: Array,
    expected: Array,
    others: Callable[[], Iterable[Array]],
    unit: float = 0.0,
    *,
    in_steps: bool = False,
) -> tuple[float, float]:
    """
    The relative error of `actual`, and the allowed one: a few times `unit`, by which values on the
    way are rounded, or that of the type, if it is more.

    `others` are as right as `expected`, but for rounding. They are asked for only if the error is
    too large. Then an error of a few times theirs is allowed, and of more times if theirs is as
    large as the values, since rounding decides all digits. Elements for which they do not agree on
    the integer, or on what is a finite number, do not count. `in_steps` says that floats are
    computed from integers that others were rounded to. Elements for which rounding decides these
    differ by whole steps: they may err by a few steps, and the others by no more than without them.
    """
    error, allowed = relative_error(actual, expected), tolerance(expected)
    if allowed:
        allowed = max(allowed, 4 * unit)
    if error <= allowed or actual.shape != expected.shape or actual.dtype != expected.dtype:
        return error, allowed
    with np.errstate(over="ignore"):
        same = (other for other in others() if other.shape == expected.shape)
        known = [other.astype(expected.dtype) for other in same]
    agreed = np.ones(expected.shape, bool)
    steady = agreed.copy()
    for other in known:
        same = other == expected
        if expected.dtype.kind not in _EXACT:
            same |= np.isfinite(other) & np.isfinite(expected)
            same |= np.isnan(other) & np.isnan(expected)
        agreed &= same
        steady &= _is_close(other, expected, allowed)

    def judged(where: Array) -> tuple[float, float]:
        noise = max((relative_error(other[where], expected[where]) for other in known), default=0.0)
        times = _NOISE if noise < 1 else _NOISE_OF_ALL_DIGITS
        return relative_error(actual[where], expected[where]), max(allowed, times * noise)

    error, most = judged(agreed)
    if error <= most and in_steps and not is_exact(expected.dtype):
        return judged(agreed & steady)
    return error, most


def pooled(allowed: float, of_all: Iterable[float]) -> float:
    """
    The error allowed for inputs of one kind, given that for `of_all` kinds, of a result that is
    computed from numbers quantized before. Where rounding decides such a number, it differs by a
    step, which later operators spread: that some of the tried inputs show none of this says little.
    """
    return max([allowed, *(each for each in of_all if each < _MOST_POOLED)])


_MOST_POOLED = 0.5
"""Errors of this part of the largest value are allowed only where rounding shows them itself."""


def _is_close(one: Array, other: Array, allowed: float) -> Array:
    """Where numbers differ by at most `allowed` of the largest of the other, or are not finite."""
    wide, right = one.astype(np.float64), other.astype(np.float64)
    largest = np.abs(right[np.isfinite(right)]).max(initial=0.0)
    with np.errstate(invalid="ignore"):
        return ~(np.abs(wide - right) > allowed * largest)


def unchanged(array: Array) -> Array:
    return array


def masked(defined: Array) -> Callable[[Array], Array]:
    """Makes the elements of an array zero that are not `defined`."""

    def shown(array: Array) -> Array:
        is_alike = array.shape == defined.shape
        return np.where(defined, array, array.dtype.type(0)) if is_alike else array

    return shown


def numbers_in(one: Array, other: Array) -> Callable[[Array], Array]:
    """Makes the elements zero that are not finite numbers in both of two arrays."""
    if one.shape != other.shape or is_exact(other.dtype):
        return unchanged
    return masked(np.isfinite(one) & np.isfinite(other))
