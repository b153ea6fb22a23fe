"""Search again where kernels cost about the same, so that noise does not choose between them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TypeVar

from collage_dsl.cost import Cost, CostFunction, Infeasible
from collage_dsl.graph import CandidateKernel, OpSet, first, members, union_of
from collage_dsl.search import Plan

_Found = TypeVar("_Found")

_ROUNDS = 8
"""How often a search is repeated at most while kernels are timed; then once more as often."""

Ways = Sequence[Sequence[CandidateKernel]]
"""Different kernels, each alone or several together, for the same nodes."""

Settle = Callable[[Sequence[Ways], Sequence[Ways]], bool]
"""
Gives the ways of a group one cost, if they cost the same within noise. Those of the second groups
may be timed for this. Says whether any cost has changed. See `MeasuredCost.settle`.
"""

_SMALL = 0.05
"""
Kernels that together take at most this part of the plan are not timed again. Where they might be
replaced by others that differ by 15 %, the plan is at most 0.75 % cheaper.
"""


def without_ties(
    search: Callable[[CostFunction], _Found],
    plan_of: Callable[[_Found], Plan | str],
    cost: CostFunction,
    settle: Settle,
    others_of: Callable[[_Found], Iterable[Plan]] = lambda found: (),
) -> tuple[_Found, Mapping[CandidateKernel, Cost]]:
    """
    What `search` finds by `cost` after the kernels of its plan were compared with the kernels that
    can take their places; and the costs that it has asked for, the last time that it was made.

    While costs change, the search is repeated. It finds a cheapest plan by the costs at that time.
    Kernels with the same cost are ordered as in every search, first by the priority of their
    targets. The other plans that were found are not compared, but the costs of their kernels are
    made as exact.
    """
    costs: dict[CandidateKernel, Cost] = {}

    def recorded(candidate: CandidateKernel) -> Cost:
        costs[candidate] = cost(candidate)
        return costs[candidate]

    found = search(recorded)
    for rounds in range(2 * _ROUNDS):
        plan = plan_of(found)
        if not isinstance(plan, Plan):
            break
        groups = rivals(plan, costs)
        timed = [*_large(groups, plan)]
        for other in others_of(found):
            timed += _large([[(each,)] for each in other.candidates], other)
        if not settle(groups, timed if rounds < _ROUNDS else ()):
            break
        costs.clear()
        found = search(recorded)
    return found, costs


def _large(groups: Iterable[Ways], plan: Plan) -> list[Ways]:
    """The groups except those of the cheapest kernels only, which take `_SMALL` of the plan."""
    ordered = sorted(plan.kernels, key=lambda kernel: kernel.cost)
    until = accumulate(kernel.cost for kernel in ordered)
    most = _SMALL * plan.cost
    small = {k.candidate for k, sum_ in zip(ordered, until, strict=True) if sum_ <= most}
    return [group for group in groups if not small.issuperset(group[0])]


def rivals(plan: Plan, costs: Mapping[CandidateKernel, Cost]) -> list[Ways]:
    """
    What can take the place of kernels of a plan. Each feasible kernel is in a group: that of the
    planned kernels which it touches. A group begins with these. The kernels of each other way have
    the same calls, and cost as little as possible beside that kernel.
    """
    covers = _Covers(costs)
    planned = {index: each for each in plan.candidates for index in each.call_indexes}
    groups: dict[OpSet, dict[frozenset[CandidateKernel], Sequence[CandidateKernel]]] = {}
    for candidate in covers.feasible:
        calls = candidate.calls
        touched = tuple(dict.fromkeys(planned[i] for i in members(calls) if i in planned))
        together = union_of(each.calls for each in touched)
        if calls & ~together:
            continue
        rest = covers.cheapest(together & ~calls)
        if rest is not None:
            group = groups.setdefault(together, {frozenset(touched): touched})
            way = candidate, *rest
            group.setdefault(frozenset(way), way)
    return [list(group.values()) for group in groups.values()]


_MOST_CALLS = 16
"""Kernels for more calls than this are not looked for beside a rival of planned kernels."""


class _Covers:
    """The cheapest kernels for exactly some calls, of those with known `costs`."""

    def __init__(self, costs: Mapping[CandidateKernel, Cost]) -> None:
        self.feasible = {
            each: cost for each, cost in costs.items() if not isinstance(cost, Infeasible)
        }
        self._by_first: dict[int, list[CandidateKernel]] = {}
        for each in self.feasible:
            if calls := each.calls:
                self._by_first.setdefault(first(calls), []).append(each)
        self._known: dict[OpSet, tuple[float, tuple[CandidateKernel, ...]] | None] = {}

    def cheapest(self, calls: OpSet) -> tuple[CandidateKernel, ...] | None:
        """None if no kernels have exactly these calls, or if there are many calls."""
        found = self._cheapest(calls) if calls.bit_count() <= _MOST_CALLS else None
        return None if found is None else found[1]

    def _cheapest(self, calls: OpSet) -> tuple[float, tuple[CandidateKernel, ...]] | None:
        if not calls:
            return 0.0, ()
        if calls not in self._known:
            found = []
            for each in self._by_first.get(first(calls), ()):
                inside = each.calls
                rest = None if inside & ~calls else self._cheapest(calls & ~inside)
                if rest is not None:
                    found.append((self.feasible[each] + rest[0], (each, *rest[1])))
            self._known[calls] = min(found, key=lambda cover: cover[0], default=None)
        return self._known[calls]
