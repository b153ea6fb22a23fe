"""The next best plans, each with other large kernels than those before it."""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count
from statistics import fmean
from typing import NamedTuple

from collage_dsl.cost import Infeasible
from collage_dsl.graph import CandidateKernel, OpSet, union_of
from collage_dsl.search.auto import auto
from collage_dsl.search.greedy import rank_of
from collage_dsl.search.plan import NoPlanError, Plan
from collage_dsl.search.problem import Problem, femtoseconds

WITHIN = 0.2
"""Plans that cost more than the best one plus this part of it are left out."""

_MOST = 8
"""How many large kernels of a plan are forbidden in turn, the largest first."""

_LARGE = 0.5
"""A large kernel costs at least this part of the mean cost of the kernels of the best plan."""

_Place = tuple[OpSet, str]
"""The calls of a kernel, and its target: what tells it from kernels that differ in details."""


class _Branch(NamedTuple):
    """The best of the plans that have a kernel at each place in `with_`, and none in `without`."""

    plan: Plan
    with_: frozenset[_Place] = frozenset()
    without: frozenset[_Place] = frozenset()


def distinct(
    problem: Problem,
    plan: Plan,
    *,
    within: float = WITHIN,
    solve: Callable[[Problem], Plan] = auto,
) -> Iterator[Plan]:
    """
    The plans after `plan`, the cheapest first, that cost at most `within` of its cost more. Only
    candidates whose costs are known are used, and no cost is asked for.

    Of two of these plans, one has a large kernel that the other lacks. Kernels of the same calls
    and target count as the same. A plan that costs less than the last one and is left out has the
    same largest kernels as one of the others: all of the large ones, or eight.
    """
    known = {c: cost for c, cost in problem.priced.items() if not isinstance(cost, Infeasible)}
    costs = [kernel.cost for kernel in plan.kernels]
    least = _LARGE * fmean(costs) if costs else 0.0
    most = femtoseconds(plan.cost * (1 + within))
    numbers = count()
    queue = [(rank_of(problem, plan.candidates), next(numbers), _Branch(plan))]
    while queue:
        rank, _, branch = heappop(queue)
        if rank[0] > most:
            return
        if branch.plan is not plan:
            yield branch.plan
        with_ = branch.with_
        for place in _large(branch.plan, least):
            if place in with_:
                continue
            without = branch.without | {place}
            found = _best(problem, list(known), with_, without, solve)
            if found is not None:
                ranked = rank_of(problem, found.candidates)
                heappush(queue, (ranked, next(numbers), _Branch(found, with_, without)))
            with_ |= {place}


def _large(plan: Plan, least: float) -> list[_Place]:
    """The places of the largest kernels of `plan`, which cost at least so much."""
    by_cost = sorted(plan.kernels, key=lambda kernel: -kernel.cost)[:_MOST]
    return [place_of(kernel.candidate) for kernel in by_cost if kernel.cost >= least]


def place_of(candidate: CandidateKernel) -> _Place:
    """The calls of a kernel, and its target."""
    return candidate.calls, candidate.target


def _best(
    problem: Problem,
    known: list[CandidateKernel],
    with_: frozenset[_Place],
    without: frozenset[_Place],
    solve: Callable[[Problem], Plan],
) -> Plan | None:
    """The best plan of `known` candidates in a branch."""
    taken = union_of(calls for calls, _ in with_)
    allowed = [
        each
        for each in known
        if (place := place_of(each)) in with_ or not (place[0] & taken or place in without)
    ]
    smaller = Problem(
        problem.graph, allowed, problem.cost, known=problem.priced, places=problem.places
    )
    try:
        return solve(smaller)
    except NoPlanError:
        return None
