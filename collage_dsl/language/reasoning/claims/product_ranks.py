"""The ranks of products of matrices and vectors, and of what they take."""

from math import inf

from collage_dsl.language.reasoning.claims.rank_differences import differ
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.values.alternatives import is_one_of, may_be_equal
from collage_dsl.language.reasoning.values.differences import Difference
from collage_dsl.language.reasoning.values.domain import between, one_of
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.rules.condition import Rank


def product_rank(called: Called, facts: Facts) -> None:
    operands = called.operands[:2]
    left, right = (facts.of(Rank(name)).only() for name in operands)
    if isinstance(left, int) and isinstance(right, int):
        rank = max(left, right) if min(left, right) > 1 else max(left, right) - 1
        facts.narrow(Rank(called.result), one_of((rank,)))
    _rank_of_other(called, facts)
    bounds = [facts.of(Rank(name)).bounds() for name in operands]
    facts.narrow(Rank(called.result), between(max(low for low, _ in bounds) - 1, inf))
    for name in operands:
        facts.narrow(Rank(name), between(-inf, facts.of(Rank(called.result)).bounds()[1] + 1))
    if all(low > 1 for low, _ in bounds):
        for name in operands:
            differ(facts, called.result, name, 0, inf)
        is_one_of(facts, Rank(called.result), list(map(Rank, operands)))
    most = max(high for _, high in bounds)
    if most < inf:
        facts.narrow(Rank(called.result), between(-inf, most))
    one, other = (facts.first(Rank(name)) for name in operands)
    if one == other and facts.possible:
        facts.differ(Difference(facts.first(Rank(called.result)), "<=", one, 0))
        if not may_be_equal(facts, Rank(called.result), Rank(operands[0])):
            facts.narrow(one, one_of((1,)))
        elif 0 not in facts.of(Rank(called.result)):
            facts.narrow(one, between(2, inf))


def _rank_of_other(called: Called, facts: Facts) -> None:
    """The rank of an operand, from those of the result and of the other operand."""
    rank = facts.of(Rank(called.result)).only()
    one, other = called.operands[:2]
    for known, name in ((one, other), (other, one)):
        beside = facts.of(Rank(known)).only()
        if not isinstance(rank, int) or not isinstance(beside, int):
            continue
        if beside == 1 or rank < beside:
            facts.narrow(Rank(name), one_of((rank + 1 if beside == 1 else 1,)))
        else:
            facts.narrow(Rank(name), between(rank if rank > beside else 2, rank))
