"""What follows from the fact that a number is one of several, of which it is not known which."""

from collections.abc import Sequence

from collage_dsl.language.reasoning.values.differences import ZERO, Difference
from collage_dsl.language.reasoning.values.domain import Values, hull
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.language.reasoning.values.terms import Term
from collage_dsl.rules.condition import DimAt, Rank

Count = Rank | DimAt


def is_one_of(facts: Facts, term: Count, others: Sequence[Count]) -> None:
    """
    Add that `term` is equal to one of `others`: the only one that it may be equal to, or one of
    those with their values.
    """
    if not facts.possible:
        return
    first = facts.first(term)
    values = facts.of_first(first)
    known = {other: facts.of_first(other) for other in map(facts.first, others)}
    left = [other for other in known if _may_be(facts, first, values, other, known[other])]
    facts.possible &= bool(left)
    if len(left) == 1:
        facts.equal(first, left[0])
    elif any(known[other] is not values for other in left):
        facts.narrow(first, hull(known[other] for other in left))


def may_be_equal(facts: Facts, term: Count, other: Count) -> bool:
    one, two = facts.first(term), facts.first(other)
    return _may_be(facts, one, facts.of_first(one), two, facts.of_first(two))


def may_be_one(facts: Facts, dim: DimAt) -> bool:
    """Whether a dimension may be 1, also by what it is compared with."""
    first = facts.first(dim)
    if 1 not in facts.of_first(first) or first not in facts.differences:
        return 1 in facts.of_first(first)
    return facts.differences.may_add(Difference(first, "==", ZERO, 1))


def _may_be(facts: Facts, one: Term, values: Values, other: Term, others: Values) -> bool:
    if one == other:
        return True
    if values is not others and values.meet(others).is_empty:
        return False
    if one not in facts.differences or other not in facts.differences:
        return True
    return facts.differences.may_add(Difference(one, "==", other, 0))
