"""Narrow the values of the terms of an expression, given its own values or what it is beside."""

from collections.abc import Mapping
from dataclasses import replace
from math import ceil, floor, inf
from typing import assert_never

from collage_dsl.graph.floats import rounded
from collage_dsl.language.reasoning.values.arithmetic import (
    calculated,
    divisors_leaving,
    factors,
    leading_to,
    roots,
    solved,
)
from collage_dsl.language.reasoning.values.comparing import differences
from collage_dsl.language.reasoning.values.domain import (
    Number,
    Values,
    between,
    is_infinite,
    is_number,
    is_whole,
)
from collage_dsl.language.reasoning.values.facts import Facts, values_of
from collage_dsl.language.reasoning.values.numbers import long_of, rounding
from collage_dsl.language.reasoning.values.terms import root_of
from collage_dsl.rules.condition import (
    Attr,
    Bytes,
    Calculate,
    Comparison,
    Constant,
    DimAt,
    Dtype,
    Each,
    Element,
    Expression,
    Item,
    Max,
    Min,
    Place,
    Rank,
    Size,
    Uses,
    Value,
    ValueOf,
)


def bound(way: Facts, operator: Comparison, left: Expression, right: Expression) -> None:
    """Narrow the values of `left` by those of `right`."""
    values = values_of(way, right)
    least, most = values.bounds()
    if slack := rounding_of(way, right, left) or rounding_of(way, left, right):
        values, least, most = between(least - slack, most + slack), least - slack, most + slack
        operator = _ROUNDED.get(operator, operator)
    match operator:
        case "==":
            narrow(way, left, values)
        case "!=":
            only = values.only()
            if only is not None:
                narrow(way, left, Values(excluded=frozenset({only})))
        case "<=":
            narrow(way, left, between(-inf, most))
        case ">=":
            narrow(way, left, between(least, inf))
        case "<":
            narrow(way, left, _below(most, is_whole(values_of(way, left))))
        case ">":
            narrow(way, left, _above(least, is_whole(values_of(way, left))))
        case _:
            assert_never(operator)


_ROUNDED: Mapping[Comparison, Comparison] = {"<": "<=", ">": ">="}
"""What remains of a comparison with a number that may have been rounded."""


def _below(end: Number, of_whole: bool) -> Values:
    if of_whole and not is_infinite(end):
        return between(-inf, ceil(end) - 1)
    return replace(between(-inf, end), excluded=frozenset({end}))


def _above(end: Number, of_whole: bool) -> Values:
    if of_whole and not is_infinite(end):
        return between(floor(end) + 1, inf)
    return replace(between(end, inf), excluded=frozenset({end}))


def rounding_of(way: Facts, number: Expression, beside: Expression) -> float:
    """By how much `number` may change as an element of the constant that it stands beside."""
    match number, beside:
        case Constant(float() as value), ValueOf(of) | Min(of) | Max(of) | Element(of):
            return rounding(value, way.of(Dtype(of)).allowed)
    return 0.0


def as_element(way: Facts, value: Value, beside: Expression) -> Value:
    """`value`, rounded like the element that it stands beside if the dtype of that is known."""
    match value, beside:
        case float(), ValueOf(of) | Min(of) | Max(of) | Element(of):
            dtype = way.of(Dtype(of)).only()
            return value if dtype is None else rounded(value, long_of(dtype))
    return value


def near(way: Facts, left: Expression, value: float, tolerance: float) -> None:
    """Add that `left` differs from `value` by at most `tolerance` times the greater of the two."""
    beyond = abs(value) * tolerance / (1 - tolerance) * _EXACTLY
    narrow(way, left, between(value - beyond, value + beyond))


def near_all(way: Facts, left: Expression, values: Values, tolerance: float) -> None:
    """
    Add that `left` differs from one of `values` by at most `tolerance` times the one that is
    further from 0. Both are on the same side of 0.
    """
    least, most = values.bounds()
    nearer, further = (1 - tolerance) / _EXACTLY, _EXACTLY / (1 - tolerance)
    low = least * (nearer if least > 0 else further)
    narrow(way, left, between(low, most * (further if most > 0 else nearer)))


_EXACTLY = 1 + 1e-9
"""More than the rounding of a few operations."""


def narrow(way: Facts, expression: Expression, values: Values) -> None:
    """Narrow the terms of `expression`, given that its value is in `values`."""
    match expression:
        case Attr() | Dtype() | Rank() | DimAt() | Size() | Bytes() | Uses():
            way.narrow(expression, values)
        case Each(Attr()) | Item(Attr()) | ValueOf() | Min() | Max():
            way.narrow(expression, values)
        case Constant(value):
            way.possible &= value in values
        case Element(of):
            _narrow_ends(way, of, values)
        case Place(of, axis):
            way.narrow(DimAt(of, axis), between(values.bounds()[0] + 1, inf))
        case Calculate(operator, left, right):
            result = values_of(way, expression).meet(values)
            way.possible &= not result.is_empty
            match left, right:
                case (inner, Constant(number)) if is_number(number):
                    few = leading_to(operator, values_of(way, inner), number, result)
                    narrow(way, inner, few.meet(solved(operator, result, number)))
                case (Constant(number), inner) if is_number(number) and operator in ("+", "*"):
                    narrow(way, inner, solved(operator, result, number))
                case _:
                    _narrow_both(way, operator, left, right, result)


def _narrow_ends(way: Facts, of: str, values: Values) -> None:
    """Narrow the least and the greatest element, given that some element is in `values`."""
    if way.first(Min(of)) == way.first(Max(of)):
        way.narrow(Min(of), values)
        return
    some = values_of(way, Element(of)).meet(values)
    way.possible &= not some.is_empty
    least, most = some.bounds()
    way.narrow(Min(of), _within(some, -inf, most))
    way.narrow(Max(of), _within(some, least, inf))


def _within(some: Values, least: Number, most: Number) -> Values:
    """The numbers from `least` to `most`, without an end that is not one of `some`."""
    return replace(between(least, most), excluded=some.excluded & {least, most})


def _narrow_both(
    way: Facts, operator: str, left: Expression, right: Expression, result: Values
) -> None:
    """Narrow the terms of two whole numbers, given that `left operator right` is in `result`."""
    one, other = values_of(way, left), values_of(way, right)
    if not (is_whole(one) and is_whole(other) and way.possible):
        return
    match operator:
        case "+":
            narrow(way, left, calculated("-", result, other))
            narrow(way, right, calculated("-", result, one))
        case "-":
            narrow(way, left, calculated("+", result, other))
            narrow(way, right, calculated("-", one, result))
        case "*" if (root := root_of(Calculate("*", left, right))) and one.bounds()[0] >= 0:
            narrow(way, root[0], roots(result, root[1]))
        case "/" if min(one.bounds()[0], other.bounds()[0]) >= 0:
            _narrow_quotient(way, left, right, result)
        case "%" if min(one.bounds()[0], other.bounds()[0]) >= 0:
            _narrow_remainder(way, left, right, result)
        case "*" if min(one.bounds()[0], other.bounds()[0]) >= 0:
            narrow(way, left, factors(result, *other.bounds()))
            narrow(way, right, factors(result, *one.bounds()))


def _narrow_remainder(way: Facts, left: Expression, right: Expression, result: Values) -> None:
    """Narrow two numbers from 0 on, given that `left % right` is in `result`."""
    least, most = result.bounds()
    narrow(way, left, between(least, inf))
    narrow(way, right, between(least + 1, inf))
    dividend, rest = values_of(way, left).only(), result.only()
    if isinstance(dividend, int) and isinstance(rest, int):
        narrow(way, right, divisors_leaving(dividend, rest))
    elif values_of(way, left).bounds()[0] > most and isinstance(least, int):
        differ(way, ">=", left, Calculate("+", right, Constant(least)))  # divided at least once
    differ(way, "<", Calculate("%", left, right), right)
    differ(way, "<=", Calculate("%", left, right), left)


def differ(way: Facts, operator: Comparison, left: Expression, right: Expression) -> None:
    """Add what a comparison says of differences, and nothing about single values."""
    for found in differences(way, operator, left, right) if way.possible else ():
        if way.possible:
            way.differ(found)


def _narrow_quotient(way: Facts, left: Expression, right: Expression, result: Values) -> None:
    """Narrow two numbers from 0 on, given that `left / right` without remainder is in `result`."""
    least, most = result.bounds()
    (_, dividend), (divisor, greatest) = (values_of(way, each).bounds() for each in (left, right))
    narrow(way, right, between(1, dividend / least if least > 0 else inf))
    narrow(way, left, between(least * max(divisor, 1), inf))
    if not is_infinite(most) and not is_infinite(greatest):
        narrow(way, left, between(0, (floor(most) + 1) * greatest - 1))
    if isinstance(least, int) and least > 0:
        differ(way, ">=", left, Calculate("*", right, Constant(least)))
    if isinstance(most, int):
        differ(way, "<", left, Calculate("*", right, Constant(most + 1)))
