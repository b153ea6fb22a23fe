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

Settle = Callable[[Iterable[Sequence[CandidateKernel]]], bool]
"""
Lets kernels of a group that cost the same, within noise, have one cost. Says whether any cost is
another one now. See `MeasuredCost.settle`.
"""


def without_ties(
    search: Callable[[], _Found],
    plan_of: Callable[[_Found], Plan | str],
    costs: Mapping[CandidateKernel, Cost],
    settle: Settle,
) -> _Found:
    """
    What `search` finds when the kernels of its plan were compared with those that can take their
    places. `costs` are the costs that the last search has asked for.

    While costs change, the search is repeated, and it finds a cheapest plan by the costs that it
    was given. Kernels of one cost are ordered as every search orders them, by the priority of their
    targets first.
    """
    found = search()
    for _ in range(_ROUNDS):
        plan = plan_of(found)
        if not isinstance(plan, Plan) or not settle(rivals(plan, costs)):
            break
        found = search()
    return found


def rivals(plan: Plan, costs: Mapping[CandidateKernel, Cost]) -> list[tuple[CandidateKernel, ...]]:
    """For each kernel of a plan that has rivals, all feasible kernels for the same nodes."""
    chosen = [each.sub_graph.inside for each in plan.candidates]
    by_nodes: dict[OpSet, list[CandidateKernel]] = {inside: [] for inside in chosen}
    for candidate, cost in costs.items():
        if candidate.sub_graph.inside in by_nodes and not isinstance(cost, Infeasible):
            by_nodes[candidate.sub_graph.inside].append(candidate)
    return [tuple(group) for group in by_nodes.values() if len(group) > 1]
