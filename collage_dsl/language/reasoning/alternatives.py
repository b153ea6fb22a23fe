"""What follows from the fact that a number is one of several, of which it is not known which."""

from collections.abc import Sequence

from collage_dsl.language.reasoning.differences import Difference
from collage_dsl.language.reasoning.domain import hull
from collage_dsl.language.reasoning.facts import Facts
from collage_dsl.rules.condition import DimAt, Rank

Count = Rank | DimAt


def is_one_of(facts: Facts, term: Count, others: Sequence[Count]) -> None:
    """
    Add that `term` is equal to one of `others`: the only one that it may be equal to, or one of
    those with their values.
    """
    if not facts.possible:
        return
    left = {facts.first(other): other for other in others if may_be_equal(facts, term, other)}
    facts.possible &= bool(left)
    if len(left) == 1:
        facts.equal(term, *left.values())
    elif left:
        facts.narrow(term, hull(map(facts.of, left)))


def may_be_equal(facts: Facts, term: Count, other: Count) -> bool:
    one, two = facts.first(term), facts.first(other)
    if one == two:
        return True
    if facts.of_first(one).meet(facts.of_first(two)).is_empty:
        return False
    if one not in facts.differences or two not in facts.differences:
        return True
    return facts.differences.copy().add(Difference(one, "==", two, 0))
