"""The ways in which the conditions of a pattern can hold: in each, the same comparisons hold."""

from collections.abc import Iterable, Iterator
from itertools import chain, islice, product

from collage_dsl.language.reasoning.values.terms import without_none
from collage_dsl.rules.condition import (
    And,
    Compare,
    Constant,
    Each,
    Expression,
    Not,
    Or,
    Range,
    Within,
)

Said = tuple[Expression, ...]
"""Conditions that are not joined by `and` or `or`."""

MOST_WAYS = 32


def ways(conditions: Iterable[Expression]) -> Iterator[Said]:
    """What has to hold in each way in which all `conditions` do; the first ways only."""
    for chosen in islice(product(*(tuple(_ways(each)) for each in conditions)), MOST_WAYS):
        yield tuple(chain.from_iterable(chosen))


def _ways(condition: Expression, *, holds: bool = True) -> Iterator[Said]:
    match without_none(condition):
        case Not(inner):
            yield from _ways(inner, holds=not holds)
        case (And(left, right) | Or(left, right)) as both if isinstance(both, And) is holds:
            pairs = product(_ways(left, holds=holds), _ways(right, holds=holds))
            yield from ((*one, *other) for one, other in islice(pairs, MOST_WAYS))
        case And(left, right) | Or(left, right):
            yield from _ways(left, holds=holds)
            yield from _ways(right, holds=holds)
        case Within(value, Range(least, most)) if not isinstance(value, Each):
            above = Compare(">=", value, Constant(least))
            below = Compare("<=", value, Constant(most))
            yield from _ways(And(above, below), holds=holds)
        case plain:
            yield (plain if holds else Not(plain),)
