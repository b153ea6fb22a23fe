"""What comparisons say of the differences of numbers, by what is known of these."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial, reduce

from collage_dsl.language.reasoning.values.differences import Difference, Node
from collage_dsl.language.reasoning.values.domain import Number, is_whole
from collage_dsl.language.reasoning.values.facts import Facts, values_of
from collage_dsl.language.reasoning.values.knowing import MOST_FACTORS
from collage_dsl.language.reasoning.values.linear import Linear, Sum
from collage_dsl.language.reasoning.values.numbers import widths_of
from collage_dsl.language.reasoning.values.terms import Term
from collage_dsl.rules.condition import (
    Attr,
    Bytes,
    Calculate,
    Comparison,
    Constant,
    DimAt,
    Dtype,
    Expression,
    Has,
    Item,
    Max,
    Min,
    Rank,
    Size,
    Uses,
    ValueOf,
)

TERMS = (Attr, Dtype, Rank, DimAt, Size, Bytes, Uses, Has, Item, ValueOf, Min, Max)
"""Terms that are compared with each other."""


def differences(
    way: Facts, operator: Comparison, left: Expression, right: Expression
) -> Iterator[Difference]:
    """
    What a comparison says of differences, if that is not said otherwise: equal terms are made one,
    and the values of a term that is compared with a number are narrowed.
    """
    if isinstance(left, Calculate) or isinstance(right, Calculate):
        yield from _of_sums(way, operator, left, right)
    elif operator != "==" and isinstance(left, TERMS) and isinstance(right, TERMS):
        is_whole = way.whole(left) is not None and way.whole(right) is not None
        if operator != "!=" or is_whole:
            yield Difference(way.first(left), operator, way.first(right), 0, is_whole)
    spelled = _spelled_out(way, left), _spelled_out(way, right)
    if spelled[0] is not left or spelled[1] is not right:
        yield from _of_sums(way, operator, *spelled)


def _of_sums(
    way: Facts, operator: Comparison, left: Expression, right: Expression
) -> Iterator[Difference]:
    """
    The same for sums, and for sums without terms of which it is known what they equal. What a term
    equals is kept.
    """
    plain = Linear(partial(_named, way), {}, partial(_bounds, way))
    found = plain.summed(Calculate("-", left, right))
    if found is None:
        return
    yield from plain.differences(operator, found)
    solved = found.solved() if operator == "==" else None
    if way.sums:
        difference, known = Calculate("-", left, right), replace(plain, sums=way.sums)
        without = known.summed(difference)
        if solved is not None and without == Sum({}):  # it is kept already what the term equals
            without = known.summed(difference, frozenset(solved[:1]))
        if without is not None and without != found:
            yield from plain.differences(operator, without)
            solved = without.solved() if operator == "==" else None
    if solved is not None and way.sums.get(solved[0]) != solved[1]:
        term, others = solved
        way.sums[term] = others
        way.news |= way.subjects_in(term) | way.subjects_in(others)


def _named(way: Facts, term: Term) -> Term | Constant | None:
    first = way.first(term)
    values = way.of_first(first)
    if not is_whole(values):
        return None
    only = values.only()
    return first if only is None or isinstance(only, bool) else Constant(only)


def _bounds(way: Facts, node: Node) -> tuple[Number, Number]:
    return values_of(way, node).whole_bounds()


def _spelled_out(way: Facts, expression: Expression) -> Expression:
    """`expression`, with numbers of bytes by those of elements, and these by dimensions."""
    match expression:
        case Bytes(of):
            width, *others = widths_of(way.of(Dtype(of))) or (0,)
            if others or width % 8 or not width:
                return expression
            return Calculate("*", _spelled_out(way, Size(of)), Constant(width // 8))
        case Size(of):
            rank = way.of(Rank(of)).only()
            if not isinstance(rank, int) or not 0 < rank <= MOST_FACTORS:
                return expression
            dims: list[Expression] = [DimAt(of, axis) for axis in range(rank)]
            return reduce(partial(Calculate, "*"), dims)
        case Calculate(operator, left, right):
            one, other = _spelled_out(way, left), _spelled_out(way, right)
            is_same = one is left and other is right
            return expression if is_same else Calculate(operator, one, other)
        case _:
            return expression
