"""
Search again where kernels cost about the same, so that noise does not choose between them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from collage_dsl.cost import Cost, Infeasible
from collage_dsl.graph import CandidateKernel, OpSet
from collage_dsl.search import Plan

_Found = TypeVar("_Found")

_ROUNDS = 4
"""How often a search is repeated at most."""

Ways = Sequence[Sequence[CandidateKernel]]
"""Different kernels, each alone or several together, for the same nodes."""

Settle = Callable[[Iterable[Ways]], bool]
"""
Gives the ways of a group one cost, if they cost the same within noise. Says whether any cost has
changed. See `MeasuredCost.settle`.
"""


def without_ties(
    search: Callable[[], _Found],
    plan_of: Callable[[_Found], Plan | str],
    costs: Mapping[CandidateKernel, Cost],
    settle: Settle,
) -> _Found:
    """
    What `search` finds after the kernels of its plan were compared with the kernels that can take
    their places. `costs` has the costs that the last search has asked for.

    While costs change, the search is repeated. It finds a cheapest plan by the costs at that time.
    Kernels with the same cost are ordered as in every search, first by the priority of their
    targets.
    """
    found = search()
    for _ in range(_ROUNDS):
        plan = plan_of(found)
        if not isinstance(plan, Plan) or not settle(rivals(plan, costs)):
            break
        found = search()
    return found


def rivals(plan: Plan, costs: Mapping[CandidateKernel, Cost]) -> list[Ways]:
    """
    What can take the place of kernels of a plan: for each kernel that has rivals, all feasible ones
    for its nodes; and for several kernels, a feasible one for the nodes of all of them.
    """
    chosen = {each.sub_graph.inside: each for each in plan.candidates}
    by_nodes: dict[OpSet, list[CandidateKernel]] = {}
    for candidate, cost in costs.items():
        if not isinstance(cost, Infeasible):
            by_nodes.setdefault(candidate.sub_graph.inside, []).append(candidate)
    groups: list[Ways] = []
    for inside, found in by_nodes.items():
        if inside in chosen and len(found) > 1:
            groups.append([(each,) for each in found])
        elif inside not in chosen and (parts := _parts(inside, plan)):
            groups.append([*((each,) for each in found), parts])
    return groups


def _parts(inside: OpSet, plan: Plan) -> tuple[CandidateKernel, ...]:
    """The kernels of a plan that have exactly these nodes together; none if there are no such."""
    touched = [each for each in plan.candidates if each.sub_graph.inside & inside]
    together = 0
    for each in touched:
        together |= each.sub_graph.inside
    return tuple(touched) if together == inside else ()
