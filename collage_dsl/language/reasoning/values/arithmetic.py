"""The values that sums, products, quotients and remainders of numbers from sets may have."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from math import gcd, inf, isqrt

from collage_dsl.language.reasoning.values.domain import (
    ANYTHING,
    LARGEST_MODULUS,
    NOTHING,
    Number,
    Values,
    between,
    divided_by,
    is_infinite,
    is_number,
    is_whole,
    one_of,
)
from collage_dsl.rules.condition import Value

_MOST_PAIRS = 64
"""Of more pairs of numbers, the results are not listed."""


_LARGEST_DIVIDED = 10**6
"""The divisors of larger numbers are not listed."""


def factors(product: Values, fewest: Number, greatest: Number) -> Values:
    """The numbers from 0 on that, times one from `fewest` to `greatest`, may be a `product`."""
    least, most = product.whole_bounds()
    only = product.only()
    if isinstance(only, int) and fewest == greatest and 0 < fewest < inf:
        return one_of((only // fewest,) if only % fewest == 0 else ())
    if isinstance(only, int) and 0 < only <= _LARGEST_DIVIDED:
        return one_of(each for each in _divisors(only) if fewest <= only // each <= greatest)
    low: Number = 0
    if least > 0:
        fewest = max(fewest, 1)
        low = inf if greatest == 0 else max(1, -(-least // greatest))
    return between(low, inf if fewest == 0 or is_infinite(most) else most // fewest)


def roots(power: Values, exponent: int) -> Values:
    """The whole numbers from 0 on that, multiplied so many times, may be a `power`."""
    least, most = power.whole_bounds()
    if most < 0:
        return NOTHING
    low = _root(least - 1, exponent) + 1 if isinstance(least, int) and least > 0 else 0
    return between(low, _root(most, exponent) if isinstance(most, int) else inf)


def _root(number: int, exponent: int) -> int:
    """The largest whole number whose power is at most `number`."""
    low, high = 0, 1 << (number.bit_length() // exponent + 1)
    while low < high:
        middle = (low + high + 1) // 2
        if middle**exponent <= number:
            low = middle
        else:
            high = middle - 1
    return low


@lru_cache(1024)
def _divisors(number: int) -> frozenset[int]:
    small = [each for each in range(1, isqrt(number) + 1) if number % each == 0]
    return frozenset((*small, *(number // each for each in small)))


def calculated(operator: str, left: Values, right: Values) -> Values:
    """The values that `left operator right` may have."""
    if pairs := _few_pairs(left, right):
        return one_of(value for pair in pairs for value in _exactly(operator, *pair))
    other = right.only()
    whole = is_whole(left) and is_whole(right)
    (a, b), (c, d) = left.bounds(), right.bounds()
    match operator:
        case "+":
            return _stepping(operator, left, right, between(a + c, b + d, whole=whole))
        case "-":
            return _stepping(operator, left, right, between(a - d, b - c, whole=whole))
        case "*":
            corners = [_product(x, y) for x in (a, b) for y in (c, d)]
            result = between(min(corners), max(corners), whole=whole)
            return _stepping(operator, left, right, result)
        case "%" if whole and c >= 0:
            return _remainders(left, right)
        case "%" if is_number(other) and other > 0:
            return between(0, other)
        case "/":  # whether the remainder is dropped is not known: 2 may be written as 2.0
            return between(_ratios(left, right, rounded=True)[0], _ratios(left, right)[1])
    return ANYTHING


def _few_pairs(left: Values, right: Values) -> list[tuple[Number, Number]]:
    """Each number of one set beside each of the other; empty if these are not known, or many."""
    ones, others = left.numbers(), right.numbers()
    if not ones or not others or len(ones) * len(others) > _MOST_PAIRS:
        return []
    return [(one, other) for one in ones for other in others]


def _remainders(left: Values, right: Values) -> Values:
    """What whole numbers leave when divided by whole numbers that are not below 0."""
    (a, b), (c, d) = left.bounds(), right.bounds()
    if d < 1:
        return ANYTHING
    if a >= 0 and b < c:
        return left
    found = between(0, min(d - 1, b) if a >= 0 else d - 1, whole=True)
    (modulus, rest), by = _step(left), right.only()
    common = gcd(modulus, by) if isinstance(by, int) else 1
    return found if common <= 1 else found.meet(divided_by(common, rest % common))


def quotient(left: Values, right: Values, *, is_exact: bool = False) -> Values:
    """
    The values that `left / right` may have, without the remainder if both are whole numbers, or
    `is_exact`, with it.
    """
    if pairs := _few_pairs(left, right):
        results = [list(_exactly("/", *pair)) for pair in pairs]
        kept = slice(1, 2) if is_exact else slice(1)
        return one_of(value for found in results for value in found[kept])
    least, most = _ratios(left, right, rounded=not is_exact)
    found, by = between(least, most, whole=not is_exact), right.only()
    if is_exact or not left.whole or not isinstance(by, int) or by < 1 or left.modulus % by:
        return found
    is_known = left.rest % by == 0 or left.bounds()[0] >= 0
    return found.meet(divided_by(left.modulus // by, left.rest // by)) if is_known else found


def _ratios(left: Values, right: Values, *, rounded: bool = False) -> tuple[Number, Number]:
    """The bounds of `left / right`; infinite unless `right` is above 0. Nothing is divided by 0."""
    (a, b), (c, d) = left.bounds(), right.bounds()
    if c == 0 and is_whole(right):
        c = 1
    if c <= 0 or d < c:
        return -inf, inf
    found = [_divided(x, y, rounded=rounded) for x in (a, b) for y in (c, d)]
    return min(found), max(found)


def _stepping(operator: str, left: Values, right: Values, result: Values) -> Values:
    """`result` with the remainder that `left operator right` leaves if both are whole."""
    if not result.whole:
        return result
    (one, first), (other, second) = _step(left), _step(right)
    match operator:
        case "+":
            modulus, rest = gcd(one, other), first + second
        case "-":
            modulus, rest = gcd(one, other), first - second
        case _:
            modulus, rest = gcd(one * other, one * second, other * first), first * second
    if not 1 < modulus <= LARGEST_MODULUS:
        return result
    return replace(result, modulus=modulus, rest=rest % modulus)


def _step(values: Values) -> tuple[int, int]:
    """A modulus and the remainder of whole numbers; a modulus of 0 for a single number."""
    only = values.only()
    return (0, only) if isinstance(only, int) else (values.modulus, values.rest)


def solved(operator: str, result: Values, constant: Number) -> Values:
    """
    The values that `e` may have if `e operator constant` is in `result`.

    Fractions give no information: a rounded result cannot be inverted exactly.
    """
    least, most = result.bounds()
    if not all(isinstance(n, int) or is_infinite(n) for n in (least, most, constant)):
        return ANYTHING
    match operator:
        case "+":
            return between(least - constant, most - constant)
        case "-":
            return between(least + constant, most + constant)
        case "*" if constant > 0:
            return between(_quotient(least, constant, 0), _quotient(most, constant, 1))
        case "%" if isinstance(constant, int) and constant > 0:
            rest = result.only()
            return divided_by(constant, rest) if isinstance(rest, int) else ANYTHING
        case "/" if constant > 0:
            return between(least * constant, most * constant + constant)
    return ANYTHING


def _exactly(operator: str, left: Number, right: Number) -> Iterator[Value]:
    try:
        match operator:
            case "+":
                yield left + right
            case "-":
                yield left - right
            case "*":
                yield left * right
            case "/":
                yield left // right
                yield left / right  # unless both are whole numbers, which may be written as 2.0
            case "%":
                yield left % right
    except (ZeroDivisionError, OverflowError):  # then it is unknown and equals nothing
        return


def rounded_down(values: Values, by: int) -> Values:
    """What `e - e % by` may be."""
    found = calculated("-", values, calculated("%", values, one_of((by,))))
    return found.meet(divided_by(by, 0)) if is_whole(values) and by > 0 else found


def leading_to(operator: str, inner: Values, constant: Number, result: Values) -> Values:
    """Those of `inner` for which `inner operator constant` is in `result`, if they are few."""
    members = inner.numbers()
    if members is None or len(members) > _MOST_PAIRS:
        return inner
    return one_of(
        each
        for each in members
        if any(value in result for value in _exactly(operator, each, constant))
    )


def divisors_leaving(number: int, rest: int) -> Values:
    """The whole numbers from 1 on that leave `rest` when they divide a `number` from 0 on."""
    above = between(rest + 1, inf, whole=True)
    multiple = number - rest
    if multiple < 0:
        return NOTHING
    if not 0 < multiple <= _LARGEST_DIVIDED:
        return above
    return one_of(_divisors(multiple)).meet(above)


def _divided(left: Number, right: Number, *, rounded: bool) -> Number:
    """`left / right` for a divisor above 0."""
    if is_infinite(left):
        return left
    if is_infinite(right):
        return -1 if rounded and left < 0 else 0
    return left // right if rounded else left / right


def _product(left: Number, right: Number) -> Number:
    """`left * right`, with 0 times infinity as 0."""
    return 0 if 0 in (left, right) else left * right


def _quotient(value: Number, by: Number, beyond: int) -> Number:
    """`value / by`; if that is too large to be exact, add `beyond` (0 or 1) to round outwards."""
    if is_infinite(value):
        return value
    if value % by == 0:
        return value // by
    return value / by if abs(value) < LARGEST_MODULUS else value // by + beyond
