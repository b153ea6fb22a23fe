"""Sets of the values an expression may have: intervals, remainders and finite sets."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, floor, gcd, inf, lcm
from typing import TypeGuard

from collage_dsl.rules.condition import Value

Number = int | float
_NUMBERS = (int, float)

_LARGEST_BOUND = 2**200
"""Bounds beyond it are not known so exactly."""

LARGEST_MODULUS = 10**9
"""Larger moduli are not combined. The set is then too large, which is safe."""


@dataclass(frozen=True, slots=True)
class Values:
    """
    A set that contains at least all possible values.

    `allowed` lists them if a finite list is known; `excluded` are not in the set. Numbers lie
    between `least` and `most`, both included; divided by `modulus` they leave `rest`. A set with
    bounds, or of whole numbers only, contains nothing but numbers.
    """

    allowed: frozenset[Value] | None = None
    excluded: frozenset[Value] = frozenset()
    least: Number = -inf
    most: Number = inf
    modulus: int = 1
    rest: int = 0
    whole: bool = False

    def __contains__(self, value: Value) -> bool:
        if value in self.excluded or (self.allowed is not None and value not in self.allowed):
            return False
        if not isinstance(value, _NUMBERS):
            return self.is_unbounded
        if self.whole and value % 1 != 0:
            return False
        is_rest = self.modulus == 1 or value % self.modulus == self.rest
        return is_rest and self.least <= value <= self.most

    @property
    def is_unbounded(self) -> bool:
        """Whether numbers have no bounds and need not be whole."""
        return self.least == -inf and self.most == inf and not self.whole

    @property
    def is_empty(self) -> bool:
        if self.allowed is not None:
            return not any(value in self for value in self.allowed)
        if self.least >= self.most:
            return self.least > self.most or self.least not in self
        return self._few() == []

    def _few(self) -> list[int] | None:
        """Its members if there are so few that none or one may remain; else None."""
        if not self.whole or is_infinite(self.most) or is_infinite(self.least):
            return None
        if self.most - self.least > (len(self.excluded) + 2) * self.modulus:
            return None
        first, last = self._ends()
        if last - first > len(self.excluded) * self.modulus:
            return None
        values = range(first, last + 1, self.modulus)
        return [value for value in values if value not in self.excluded]

    def _ends(self) -> tuple[int, int]:
        """The least and the greatest whole number with the remainder; first > last if none."""
        first = ceil(self.least)
        first += (self.rest - first) % self.modulus
        last = floor(self.most)
        return first, last - (last - self.rest) % self.modulus

    def bounds(self) -> tuple[Number, Number]:
        """A lower and an upper bound of its numbers."""
        if self.allowed is not None:
            numbers = [value for value in self.allowed if is_number(value) and value in self]
            return (min(numbers), max(numbers)) if numbers else (self.least, self.most)
        return self.least, self.most

    def whole_bounds(self) -> tuple[Number, Number]:
        """The least and the greatest whole number that may be in it; infinite if there is none."""
        least, most = self.bounds()
        if not is_infinite(least):
            least = ceil(least)
            least += (self.rest - least) % self.modulus
            while least in self.excluded and least < most:
                least += self.modulus
        if not is_infinite(most):
            most = floor(most)
            most -= (most - self.rest) % self.modulus
            while most in self.excluded and least < most:
                most -= self.modulus
        return least, most

    def only(self) -> Value | None:
        """Its only value; None if it has several values, or none."""
        left: Sequence[Value] | None
        if self.allowed is not None:
            left = [value for value in self.allowed if value in self]
        else:
            left = None if self.most == inf else self._few()
        return left[0] if left and len(left) == 1 else None

    def numbers(self) -> list[Number] | None:
        """Its members, if they are known one by one and all of them are numbers."""
        if self.allowed is None:
            only = self.only()
            return [only] if is_number(only) else None
        members = [value for value in self.allowed if value in self]
        numbers = [value for value in members if is_number(value)]
        return numbers if len(numbers) == len(members) else None

    def meet(self, other: "Values") -> "Values":
        """The values in both sets; `self` itself if `other` removes nothing."""
        if other._holds_all_of(self):
            return self
        allowed = self.allowed
        if allowed is None or other.allowed is None:
            allowed = other.allowed if allowed is None else allowed
        else:
            allowed &= other.allowed
        met = Values(
            allowed,
            self.excluded | other.excluded,
            max(self.least, other.least),
            min(self.most, other.most),
            self.modulus,
            self.rest,
            self.whole or other.whole,
        )
        return met._with_remainder(other.modulus, other.rest)

    def _holds_all_of(self, other: "Values") -> bool:
        """Whether each constraint here is also in `other`: a quick test, it may miss cases."""
        if self.allowed is not None and (other.allowed is None or other.allowed - self.allowed):
            return False
        return (
            self.least <= other.least
            and other.most <= self.most
            and self.modulus == 1
            and (other.whole or not self.whole)
            and self.excluded <= other.excluded
        )

    def _with_remainder(self, modulus: int, rest: int) -> "Values":
        if modulus == 1:
            return self
        common = gcd(self.modulus, modulus)
        if self.rest % common != rest % common:
            return NOTHING
        combined = lcm(self.modulus, modulus)
        if combined > LARGEST_MODULUS:
            return self
        inverse = pow(self.modulus // common, -1, modulus // common)
        step = (rest - self.rest) // common * inverse
        return replace(self, modulus=combined, rest=(self.rest + self.modulus * step) % combined)


ANYTHING = Values()
NOTHING = Values(frozenset())
NATURAL = Values(least=0, whole=True)
COUNT = Values(least=1, whole=True)
WHOLE = Values(whole=True)
TRUTH = Values(frozenset({True, False}))
TRUE = Values(frozenset({True}))
FALSE = Values(frozenset({False}))


def one_of(values: Iterable[Value]) -> Values:
    return Values(frozenset(values))


@lru_cache(1024, typed=True)  # few are made often; `typed`, because 1 == 1.0
def between(least: Number, most: Number, *, whole: bool = False) -> Values:
    if isinstance(least, int) and abs(least) > _LARGEST_BOUND:
        least = _LARGEST_BOUND if least > 0 else -inf
    if isinstance(most, int) and abs(most) > _LARGEST_BOUND:
        most = inf if most > 0 else -_LARGEST_BOUND
    return Values(least=least, most=most, whole=whole)


@lru_cache(1024)
def divided_by(modulus: int, rest: int) -> Values:
    """The whole numbers that leave `rest` when divided by `modulus`."""
    return Values(modulus=modulus, rest=rest, whole=True)


def hull(sets: Iterable[Values]) -> Values:
    """A set that contains all members of `sets`, of which there is one at least."""
    every = list(sets)
    lists = [values.allowed for values in every if values.allowed is not None]
    if len(lists) == len(every):
        return one_of(
            value for values in every for value in values.allowed or () if value in values
        )
    least, most = zip(*(values.bounds() for values in every), strict=True)
    return between(min(least), max(most), whole=all(map(is_whole, every)))


def is_number(value: object) -> TypeGuard[Number]:
    return isinstance(value, _NUMBERS)


def is_whole(values: Values) -> bool:
    """Whether all values are whole numbers."""
    if values.allowed is None:
        return values.whole
    return all(isinstance(value, int) for value in values.allowed)


def has_element(value: Value, index: int, allowed: Values) -> bool:
    """Whether a list has an element there, and one of `allowed`."""
    element = element_of(value, index)
    return element is not None and element in allowed


def element_of(value: Value, index: int) -> Value:
    """An element of a list, or None. A number stands for a list."""
    if not isinstance(value, tuple):
        return value
    return value[index] if -len(value) <= index < len(value) else None


def is_infinite(value: Number) -> bool:
    return value in (inf, -inf)
