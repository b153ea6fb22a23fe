"""Merging neighbouring kernels of one target after the search."""

from collections.abc import Callable

from collage_dsl.cost import CostFunction, Infeasible
from collage_dsl.graph import (
    CandidateKernel,
    Form,
    Graph,
    OpSet,
    SubGraph,
    Toolchain,
    members,
    opset,
)
from collage_dsl.search.plan import Plan, PlannedKernel, in_execution_order, is_acyclic


def coalesce(plan: Plan, cost: CostFunction, may_merge: Callable[[Toolchain], bool]) -> Plan:
    """
    `plan` with touching kernels of a target that `may_merge` merged as far as the kernels
    stay convex and can still run one after the other.

    A merged kernel is kept only where it is feasible and costs no more than its parts.
    """
    groups = _grow(plan, may_merge)
    kernels: list[PlannedKernel] = []
    for group in groups:
        kernels.extend(_merged(group, cost))
    by_candidate = {kernel.candidate: kernel for kernel in kernels}
    ordered = in_execution_order(plan.graph, list(by_candidate))
    return Plan(plan.graph, tuple(by_candidate[candidate] for candidate in ordered))


def _grow(plan: Plan, may_merge: Callable[[Toolchain], bool]) -> list[list[PlannedKernel]]:
    """
    The kernels in groups, each as large as the rules of merging allow.

    Kernels that may not be merged now may not be merged later either, since whatever lies
    between them stays there; so every group is grown once, in execution order.
    """
    groups = [[kernel] for kernel in plan.kernels]
    position = 0
    while position < len(groups):
        other = _partner(plan, groups, position, may_merge)
        if other is None:
            position += 1
        else:
            groups[position].extend(groups.pop(other))
    return groups


def _partner(
    plan: Plan,
    groups: list[list[PlannedKernel]],
    position: int,
    may_merge: Callable[[Toolchain], bool],
) -> int | None:
    """The first later group that can be merged into the one at `position`."""
    toolchain = groups[position][0].candidate.toolchain
    if not may_merge(toolchain):
        return None
    insides = [_inside(group) for group in groups]
    for other in range(position + 1, len(groups)):
        same = groups[other][0].candidate.toolchain == toolchain
        if same and _can_merge(plan.graph, insides, position, other):
            return other
    return None


def _can_merge(graph: Graph, insides: list[OpSet], one: int, other: int) -> bool:
    union = insides[one] | insides[other]
    between = _between(graph, union)
    touching = graph.output(insides[one]) | graph.output(insides[other])
    if not touching & (union | between):
        return False
    if len(graph.blocks(union)) > 1 or not graph.is_convex(union | between):
        return False
    rest = [inside for k, inside in enumerate(insides) if k not in (one, other)]
    return is_acyclic(graph, [union, *rest])


def _between(graph: Graph, inside: OpSet) -> OpSet:
    """Free nodes outside on the paths that lead from `inside` back to it."""
    below, pending = 0, graph.output(inside) & graph.free
    while pending:
        below |= pending
        pending = graph.output(pending) & graph.free & ~(inside | below)
    found, pending = 0, graph.input(inside) & below
    while pending:
        found |= pending
        pending = graph.input(pending) & below & ~found
    return found


def _inside(group: list[PlannedKernel]) -> OpSet:
    result = 0
    for kernel in group:
        result |= kernel.candidate.sub_graph.inside
    return result


def _absorbable(graph: Graph, inside: OpSet) -> OpSet:
    """The free nodes between that nothing outside uses; a tuple is no result of a kernel."""
    between = _between(graph, inside)
    return opset(
        index
        for index in members(between)
        if graph.nodes[index].form is Form.PROJECTION
        or not graph.users_of[index] & ~(inside | between)
    )


def _merged(group: list[PlannedKernel], cost: CostFunction) -> list[PlannedKernel]:
    if len(group) == 1:
        return group
    candidate = group[0].candidate
    union = candidate.sub_graph
    for kernel in group[1:]:
        union |= kernel.candidate.sub_graph
    union |= SubGraph(_absorbable(candidate.graph, union.inside))
    whole = CandidateKernel(candidate.graph, union, candidate.toolchain)
    price = cost(whole)
    if isinstance(price, Infeasible) or price > sum(kernel.cost for kernel in group):
        return group
    return [PlannedKernel(whole, price)]
