"""Compare and calculate with values of which some may be unknown."""

from collections.abc import Iterable
from math import isclose, isnan
from typing import assert_never

from collage_dsl.rules.condition import UNKNOWN, Arithmetic, Comparison, Unknown, Value


def every(answers: Iterable[bool | Unknown]) -> bool | Unknown:
    found = list(answers)
    if False in found:
        return False
    return UNKNOWN if any(isinstance(each, Unknown) for each in found) else True


def in_range(
    value: Value | Unknown, least: Value | Unknown, most: Value | Unknown
) -> bool | Unknown:
    return every((compare(">=", value, least), compare("<=", value, most)))


def calculated(
    operator: Arithmetic, left: Value | Unknown, right: Value | Unknown
) -> Value | Unknown:
    if not (isinstance(left, int | float) and isinstance(right, int | float)):
        return UNKNOWN
    try:
        result = calculate(operator, left, right)
    except (ZeroDivisionError, OverflowError):  # a huge whole number with a fraction
        return UNKNOWN
    return UNKNOWN if isnan(result) else result


def calculate(operator: Arithmetic, left: float, right: float) -> int | float:
    """The result. Raises ZeroDivisionError and OverflowError."""
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/" if isinstance(left, int) and isinstance(right, int):
            return left // right
        case "/":
            return left / right
        case "%":
            return left % right
        case _:
            assert_never(operator)


def near(left: Value | Unknown, right: Value | Unknown, tolerance: float) -> bool | Unknown:
    if not (isinstance(left, int | float) and isinstance(right, int | float)):
        return UNKNOWN
    return isclose(left, right, rel_tol=tolerance)


def compare(operator: Comparison, left: Value | Unknown, right: Value | Unknown) -> bool | Unknown:
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return UNKNOWN
    if operator in ("==", "!="):
        same = _equal(left, right)
        return same if isinstance(same, Unknown) else same == (operator == "==")
    if not (isinstance(left, int | float) and isinstance(right, int | float)):
        return UNKNOWN
    match operator:
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case _:
            return left >= right


def _equal(left: Value, right: Value) -> bool | Unknown:
    """Equality. For shapes it is unknown if symbolic dimensions could be equal."""
    if not (isinstance(left, tuple) and isinstance(right, tuple)) or len(left) != len(right):
        return left == right
    pairs = [(a, b) for a, b in zip(left, right, strict=True) if a != b or a == _SOME_DIM]
    symbolic = any(isinstance(side, str) for pair in pairs for side in pair)
    certain = any(isinstance(a, int) and isinstance(b, int) for a, b in pairs)
    if certain or not pairs:
        return not pairs
    return UNKNOWN if symbolic else False


_SOME_DIM = "?"
"""A dimension without a name: two of them may differ."""


def within(value: Value | Unknown, choices: Value | Unknown) -> bool | Unknown:
    if isinstance(value, Unknown) or not isinstance(choices, tuple):
        return UNKNOWN
    same = [_equal(value, choice) for choice in choices]
    if True in same:
        return True
    return UNKNOWN if any(isinstance(each, Unknown) for each in same) else False
