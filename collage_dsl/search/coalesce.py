"""`after max_coalesce()`: merge neighbouring kernels of one target after the search."""

from collections.abc import Callable, Iterable, Sequence
from functools import reduce

from collage_dsl.cost import CostFunction, Infeasible
from collage_dsl.graph import CandidateKernel, SubGraph
from collage_dsl.graph.between import absorbable
from collage_dsl.graph.variants import Variants, common
from collage_dsl.search.plan import (
    Plan,
    PlannedKernel,
    Problem,
    femtoseconds,
    in_execution_order,
    producers,
)

MayMerge = Callable[[CandidateKernel], bool]
"""Whether a merged kernel is allowed."""


def coalesce(plan: Plan, cost: CostFunction, may_merge: MayMerge) -> Plan:
    """
    `plan` with touching kernels of one target merged, as far as `may_merge` allows it and all
    kernels can still run one after the other.

    A merged kernel is kept only if it is feasible and costs no more than its parts, in whole
    femtoseconds. Otherwise its kernels are split into two halves in execution order, and the
    kernels of each half that touch are tried as merged kernels.
    """
    groups = _Groups(plan, may_merge).grown()
    checked = Problem(plan.graph, (), cost).cost  # raises `CostError` for what is no cost
    kernels = [merged for group in groups for merged in _priced(group, checked, may_merge)]
    by_candidate = {kernel.candidate: kernel for kernel in kernels}
    ordered = in_execution_order(plan.graph, list(by_candidate))
    kept = tuple(by_candidate[candidate] for candidate in ordered)
    return Plan(plan.graph, kept, plan.record)


class _Groups:
    """
    The kernels of a plan in groups, and which group needs which. Each group becomes one kernel.

    The number of a group is the place of its first kernel in the plan.
    """

    def __init__(self, plan: Plan, may_merge: MayMerge) -> None:
        self.may_merge = may_merge
        self.plan = plan
        self.groups = {number: [number] for number in range(len(plan.kernels))}
        needs = producers(plan.graph, [k.candidate.sub_graph.inside for k in plan.kernels])
        self.needs = dict(enumerate(needs))
        self.users: dict[int, set[int]] = {number: set() for number in self.groups}
        for number, needed in self.needs.items():
            for other in needed:
                self.users[other].add(number)

    def grown(self) -> list[list[PlannedKernel]]:
        """
        The groups in execution order, each as large as possible. Two groups that may not be
        merged now may not be merged later either: the nodes between them stay between them.
        """
        for number in list(self.groups):
            while number in self.groups and (partner := self.partner(number)) is not None:
                self.merge(number, partner)
        return [self.kernels(number) for number in self.groups]

    def kernels(self, *numbers: int) -> list[PlannedKernel]:
        """The kernels of these groups in execution order."""
        places = sorted(place for number in numbers for place in self.groups[number])
        return [self.plan.kernels[place] for place in places]

    def partner(self, number: int) -> int | None:
        """The first group that can be merged into this one."""
        touching = sorted(self.users[number] | self.needs[number])
        return next((other for other in touching if self.can_merge(number, other)), None)

    def can_merge(self, one: int, other: int) -> bool:
        targets = {self.plan.kernels[number].target for number in (one, other)}
        if len(targets) > 1 or self.has_detour(one, other) or self.has_detour(other, one):
            return False
        kernels = self.kernels(one, other)
        return _variants(kernels) != frozenset() and self.may_merge(_union(kernels))

    def has_detour(self, start: int, end: int) -> bool:
        """Whether a path leads from `start` to `end` through a third group."""
        pending = self.users[start] - {end}
        seen = set(pending)
        while pending:
            users = self.users[pending.pop()]
            if end in users:
                return True
            pending |= users - seen
            seen |= users
        return False

    def merge(self, kept: int, other: int) -> None:
        self.groups[kept].extend(self.groups.pop(other))
        for mine, theirs in ((self.needs, self.users), (self.users, self.needs)):
            mine[kept].discard(other)
            for neighbour in mine.pop(other) - {kept}:
                theirs[neighbour].discard(other)
                theirs[neighbour].add(kept)
                mine[kept].add(neighbour)


def _priced(
    group: Sequence[PlannedKernel], cost: CostFunction, may_merge: MayMerge
) -> list[PlannedKernel]:
    if len(group) == 1:
        return list(group)
    whole = _union(group)
    price = cost(whole) if may_merge(whole) else Infeasible("not allowed")
    parts = sum(femtoseconds(kernel.cost) for kernel in group)
    if not isinstance(price, Infeasible) and femtoseconds(price) <= parts:
        return [PlannedKernel(whole, price)]
    # No path leaves the group and comes back, so each half is convex too.
    half = len(group) // 2
    touching = [*_touching(group[:half]), *_touching(group[half:])]
    return [kernel for smaller in touching for kernel in _priced(smaller, cost, may_merge)]


def _touching(kernels: Sequence[PlannedKernel]) -> list[list[PlannedKernel]]:
    """Groups of kernels that touch each other; `kernels` are in execution order."""
    graph = kernels[0].candidate.graph
    needs = producers(graph, [kernel.candidate.sub_graph.inside for kernel in kernels])
    groups: list[list[int]] = []
    for number, needed in enumerate(needs):
        joined = [group for group in groups if needed.intersection(group)]
        groups = [group for group in groups if group not in joined]
        groups.append(sorted([number, *(other for group in joined for other in group)]))
    return [[kernels[number] for number in group] for group in groups]


def _variants(kernels: Iterable[PlannedKernel]) -> Variants:
    """The variants that the toolchains of all kernels allow."""
    said = (frozenset(kernel.candidate.toolchain.variants) for kernel in kernels)
    return reduce(common, (variants or None for variants in said), None)


def _union(kernels: Sequence[PlannedKernel]) -> CandidateKernel:
    candidates = [kernel.candidate for kernel in kernels]
    graph, union = candidates[0].graph, SubGraph(0)
    for candidate in candidates:
        union |= candidate.sub_graph
    union |= SubGraph(absorbable(graph, union.inside))
    toolchain = candidates[0].toolchain.only_by(_variants(kernels))
    return CandidateKernel(graph, union, toolchain)
