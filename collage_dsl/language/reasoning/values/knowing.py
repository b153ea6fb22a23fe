"""Record that terms are known, and add what follows: ranks, numbers of elements, bytes."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from math import gcd, inf, prod

from collage_dsl.language.reasoning.values.arithmetic import calculated, factors, roots
from collage_dsl.language.reasoning.values.differences import Difference
from collage_dsl.language.reasoning.values.domain import (
    TRUE,
    Number,
    Values,
    between,
    divided_by,
    is_infinite,
    one_of,
)
from collage_dsl.language.reasoning.values.facts import ELEMENTS, Facts, with_axis
from collage_dsl.language.reasoning.values.numbers import widths_of
from collage_dsl.language.reasoning.values.subjects import typed
from collage_dsl.language.reasoning.values.terms import Term, has_of, rank_of, terms
from collage_dsl.rules.condition import (
    Attr,
    Bytes,
    DimAt,
    Dtype,
    Each,
    Expression,
    Has,
    Item,
    Max,
    Min,
    Size,
    Uses,
    ValueOf,
)

MOST_FACTORS = 8
"""The elements of a value with more dimensions are not counted."""


def know(facts: Facts, expression: Expression) -> None:
    """Record that all terms of `expression` are known."""
    for term in terms(expression):
        if term not in facts.known:
            _add_known(facts, term)
        if isinstance(term, Each | Item) and isinstance(term.attribute, Attr):
            match_lists(facts, term.attribute)
        if isinstance(term, Has | Attr | Each | Item):
            continue
        if (has_type := has_of(typed(term.of))) in facts.values and not isinstance(term, Uses):
            facts.narrow(has_type, TRUE)
        if isinstance(term, DimAt):
            facts.narrow(rank_of(term.of), with_axis(term.axis))
        if isinstance(term, DimAt | Size | Bytes):
            facts.known.add(rank_of(term.of))
        if isinstance(term, ELEMENTS):
            order_elements(facts, term)
        if isinstance(term, Size):
            count_elements(facts, term.of)
        if isinstance(term, Bytes):
            facts.known |= {Size(term.of), Dtype(term.of)}
            count_elements(facts, term.of)
            count_bytes(facts, term.of)


def _add_known(facts: Facts, term: Term) -> None:
    """Record that `term` is known, and that what it is about is there."""
    facts.known.add(term)
    facts.news |= facts.subjects(facts.first(term))
    match term:
        case Has():
            return
        case (Attr() as attribute) | Each(attribute) | Item(attribute):
            facts.narrow(has_of(attribute.name), TRUE)
        case _:
            facts.narrow(has_of(term.of), TRUE)


def match_lists(facts: Facts, attribute: Attr) -> None:
    """Add that lists that equal `attribute` have its elements, where these are asked about."""
    first = facts.first(attribute)
    if first not in facts.also_of or not facts.possible:
        return
    others = (term for term in facts.same if isinstance(term, Attr) and facts.first(term) == first)
    alike = [first, *sorted(others, key=str)]
    asked = (term for term in facts.known if isinstance(term, Each | Item))
    for term in sorted((each for each in asked if each.attribute in alike), key=str):
        for other in alike:
            if facts.possible and isinstance(other, Attr):
                facts.equal(term, replace(term, attribute=other))


def count(facts: Facts) -> None:
    """Add what is known by now of the numbers of elements and bytes that are asked about."""
    for term in [term for term in facts.known if isinstance(term, Size)]:
        if facts.possible:
            count_elements(facts, term.of)
        if Bytes(term.of) in facts.known:
            count_bytes(facts, term.of)


def count_elements(facts: Facts, name: str) -> None:
    """
    Add that a value has as many elements as the product of its dimensions. If the rank is not
    known, it is a multiple of those that are counted from the same end. A value of rank 0 has one
    element.
    """
    size, rank = Size(name), rank_of(name)
    if facts.of(rank).bounds()[1] == 1 and 1 not in facts.of(size):
        facts.narrow(rank, one_of((1,)))
    number = facts.of(rank).only()
    if isinstance(number, int) and number <= MOST_FACTORS:
        _multiply(facts, size, [DimAt(name, axis) for axis in range(number)])
        return
    axes = facts.asked_axes((name,))
    for of_end in ([at for at in axes if at >= 0], [at for at in axes if at < 0]):
        steps = [_step(facts.of(DimAt(name, axis))) for axis in of_end]
        if facts.possible:
            facts.narrow(size, divided_by(prod(steps), 0) if all(steps) else one_of((0,)))
    least, most = facts.of(size).bounds()
    for axis in axes if least >= 1 else ():
        facts.narrow(DimAt(name, axis), between(1, most))
        if Size(name) in facts.known and facts.possible:
            whole, part = facts.first(Size(name)), facts.first(DimAt(name, axis))
            facts.differ(Difference(whole, ">=", part, 0))


def _multiply(facts: Facts, size: Size, dims: Sequence[DimAt]) -> None:
    """Narrow the number of elements by all dimensions, and each of them by it and the others."""
    bounds = [facts.of(dim).whole_bounds() for dim in dims]
    facts.narrow(size, reduce(partial(calculated, "*"), map(facts.of, dims), one_of((1,))))
    if len(dims) > 1 and len(set(map(facts.first, dims))) == 1:
        facts.narrow(dims[0], roots(facts.of(size), len(dims)))
    for at, dim in enumerate(dims):
        if facts.possible and facts.of(dim).only() is None:
            others = bounds[:at] + bounds[at + 1 :]
            ends = map(_product, zip(*others, strict=True)) if others else (1, 1)
            facts.narrow(dim, factors(facts.of(size), *ends))


def multiply(facts: Facts, whole: str, part: str) -> None:
    """Add that `whole` has a multiple of the elements of `part`, if both are asked or known."""
    size = Size(part)
    is_known = size in facts.known
    is_asked = is_known or facts.first(size) in facts.values
    if facts.possible and (is_asked or facts.of(rank_of(part)).only() is not None):
        count_elements(facts, part)
        known = facts.of(size)
        by = _step(known)
        if by > 1 and facts.possible:
            count_elements(facts, whole)
            facts.narrow(Size(whole), divided_by(by, 0))
    is_compared = is_known and facts.possible and Size(whole) in facts.known
    if is_compared and 0 not in facts.of(Size(whole)):
        facts.differ(Difference(facts.first(Size(whole)), ">=", facts.first(size), 0))


def _step(values: Values) -> int:
    """A number of which each of `values` is a multiple: the only one itself, or else 1 at least."""
    only = values.only()
    if isinstance(only, int):
        return only
    return values.modulus if values.rest == 0 else 1


def _product(numbers: Sequence[Number]) -> Number:
    """Of numbers from 0 to infinity; 0 if one is 0."""
    return 0 if 0 in numbers else prod(numbers)


def count_bytes(facts: Facts, name: str) -> None:
    """Add that the bytes of a value are those of its elements, each as wide as its dtype."""
    widths = widths_of(facts.of(Dtype(name)))
    if not widths or not facts.possible:
        return
    narrow, wide = min(widths), max(widths)
    least, most = facts.of(Bytes(name)).bounds()
    facts.narrow(Size(name), between((least - 1) * 8 // wide + 1, _floor(most * 8, narrow)))
    least, most = facts.of(Size(name)).bounds()
    facts.narrow(Bytes(name), between(least * narrow // 8, -_floor(-most * wide, 8)))
    size = facts.of(Size(name)).only()
    if isinstance(size, int):
        facts.narrow(Bytes(name), one_of({-(-size * width // 8) for width in widths}))
    elif (common := gcd(*widths)) % 8 == 0:
        facts.narrow(Bytes(name), divided_by(common // 8, 0))


def _floor(number: Number, by: int) -> Number:
    return number if is_infinite(number) else number // by


def order_elements(facts: Facts, term: Min | Max | ValueOf) -> None:
    """Add how the least and the greatest element of a constant compare: it has elements."""
    least, most = Min(term.of), Max(term.of)
    facts.narrow(Size(term.of), between(1, inf))
    if facts.possible:
        count_elements(facts, term.of)
    if isinstance(term, ValueOf):
        facts.equal(least, term)
        facts.equal(most, term)
    elif facts.of(Size(term.of)).only() == 1:
        facts.equal(least, most)
    elif facts.possible:
        first, last = facts.first(least), facts.first(most)
        facts.differ(Difference(first, "<=", last, 0, is_whole=False))
