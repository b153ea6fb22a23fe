"""`after max_coalesce()`: merge neighbouring kernels of one target in a plan."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from operator import attrgetter

from collage_dsl.cost import CostFunction, Infeasible
from collage_dsl.graph import CandidateKernel, Graph, SubGraph
from collage_dsl.graph.between import absorbable
from collage_dsl.graph.variants import Variants, common
from collage_dsl.search.execution_order import in_execution_order, producers
from collage_dsl.search.plan import Plan, PlannedKernel
from collage_dsl.search.problem import Problem, femtoseconds

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


def touching(graph: Graph, kernels: Iterable[CandidateKernel]) -> bool:
    """Whether two of the kernels have one target and touch, directly or behind free nodes."""
    owner = {index: kernel for kernel in kernels for index in kernel.sub_graph.indexes}
    for index, kernel in owner.items():
        pending = list(graph.nodes[index].inputs)
        while pending:
            operand = pending.pop()
            other = owner.get(operand)
            if other is None:
                if not graph.nodes[operand].is_call:
                    pending += graph.nodes[operand].inputs
            elif other is not kernel and other.target == kernel.target:
                return True
    return False


class _Groups:
    """
    The kernels of a plan in groups, and which group needs which. Each group becomes one kernel.

    The number of a group is the place of its first kernel in the plan.
    """

    def __init__(self, plan: Plan, may_merge: MayMerge) -> None:
        self.may_merge = may_merge
        self.plan = plan
        self.whole = {number: kernel.candidate for number, kernel in enumerate(plan.kernels)}
        self.groups = {number: [number] for number in range(len(plan.kernels))}
        needs = producers(plan.graph, list(self.whole.values()))
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
        for level in list(self.levels()):
            if whole := self.merged(*level):
                for number in level[1:]:
                    self.merge(level[0], number)
                self.whole[level[0]] = whole
        for number in list(self.groups):
            while number in self.groups and (found := self.partner(number)) is not None:
                partner, whole = found
                self.merge(number, partner)
                self.whole[number] = whole
        return [self.kernels(number) for number in self.groups]

    def levels(self) -> Iterator[list[int]]:
        """
        Kernels of one target that touch, with the same number of changes of the target before them,
        on the path with the most. No path leaves such kernels and comes back.
        """
        level: list[int] = []
        joined = _Disjoint(len(self.plan.kernels))
        for number, kernel in enumerate(self.plan.kernels):
            before = [(level[k], k, self.plan.kernels[k].target) for k in self.needs[number]]
            level.append(max((at + (t != kernel.target) for at, _, t in before), default=0))
            for at, other, target in before:
                if at == level[number] and target == kernel.target:
                    joined.join(other, number)
        yield from (found for found in joined.sets() if len(found) > 1)

    def kernels(self, *numbers: int) -> list[PlannedKernel]:
        """The kernels of these groups in execution order."""
        places = sorted(place for number in numbers for place in self.groups[number])
        return [self.plan.kernels[place] for place in places]

    def partner(self, number: int) -> tuple[int, CandidateKernel] | None:
        """The first group that can be merged into this one, and what the two become."""
        for other in sorted(self.users[number] | self.needs[number]):
            if self.plan.kernels[number].target != self.plan.kernels[other].target:
                continue
            above, below = (number, other) if other in self.users[number] else (other, number)
            if self.has_detour(above, below):
                continue
            if whole := self.merged(number, other):
                return other, whole
        return None

    def merged(self, *numbers: int) -> CandidateKernel | None:
        """One kernel for groups of one target, without its composites; None if it may not be."""
        parts = [self.whole[number] for number in numbers]
        if not have_common_variant(parts):
            return None
        whole = union(parts, composites=False)
        return whole if self.may_merge(whole) else None

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


class _Disjoint:
    """The numbers below `count` in disjoint sets (Galler and Fischer 1964)."""

    def __init__(self, count: int) -> None:
        self.parent = list(range(count))

    def find(self, number: int) -> int:
        while self.parent[number] != number:
            self.parent[number] = number = self.parent[self.parent[number]]
        return number

    def join(self, one: int, other: int) -> None:
        low, high = sorted((self.find(one), self.find(other)))
        self.parent[high] = low

    def sets(self) -> Iterable[list[int]]:
        found: dict[int, list[int]] = {}
        for number in range(len(self.parent)):
            found.setdefault(self.find(number), []).append(number)
        return found.values()


def _priced(
    group: Sequence[PlannedKernel], cost: CostFunction, may_merge: MayMerge
) -> list[PlannedKernel]:
    if len(group) == 1:
        return list(group)
    whole = union([kernel.candidate for kernel in group])
    price = cost(whole) if may_merge(whole) else Infeasible("not allowed")
    parts = sum(femtoseconds(kernel.cost) for kernel in group)
    if not isinstance(price, Infeasible) and femtoseconds(price) <= parts:
        return [PlannedKernel(whole, price)]
    # No path leaves the group and comes back, so each half is convex too.
    half = len(group) // 2
    smaller = [*_touching(group[:half]), *_touching(group[half:])]
    return [kernel for each in smaller for kernel in _priced(each, cost, may_merge)]


def _touching(kernels: Sequence[PlannedKernel]) -> list[list[PlannedKernel]]:
    """Groups of kernels that touch each other; `kernels` are in execution order."""
    graph = kernels[0].candidate.graph
    joined = _Disjoint(len(kernels))
    needs = producers(graph, [kernel.candidate for kernel in kernels])
    for number, needed in enumerate(needs):
        for other in needed:
            joined.join(number, other)
    return [[kernels[number] for number in found] for found in joined.sets()]


def have_common_variant(kernels: Iterable[CandidateKernel]) -> bool:
    """Whether one kernel may compute all of these, as far as their variants say."""
    return _variants(kernels) != frozenset()


def _variants(kernels: Iterable[CandidateKernel]) -> Variants:
    """The variants that the toolchains of all kernels allow."""
    said = (frozenset(kernel.toolchain.variants) for kernel in kernels)
    return reduce(common, (variants or None for variants in said), None)


def union(kernels: Sequence[CandidateKernel], *, composites: bool = True) -> CandidateKernel:
    """One kernel for kernels of one target, whose toolchains allow a common variant."""
    graph, toolchain = kernels[0].graph, kernels[0].toolchain.only_by(_variants(kernels))
    inside = constants = 0
    for kernel in kernels:
        inside |= kernel.sub_graph.inside
        constants |= kernel.sub_graph.constants
    inside |= absorbable(graph, inside)
    inner = [each for kernel in kernels for each in kernel.sub_graph.composites]
    inner.sort(key=attrgetter("last"))
    sub_graph = SubGraph(inside, constants, tuple(inner) if composites else ())
    return CandidateKernel(graph, sub_graph, toolchain)
