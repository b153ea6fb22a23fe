"""The problem that a search solves, and its answer."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from collage_dsl.cost import CostFunction, Infeasible
from collage_dsl.graph import CandidateKernel, Graph, OpSet, first, members


@dataclass(frozen=True, slots=True)
class PlannedKernel:
    """A candidate that was chosen, and its cost in seconds."""

    candidate: CandidateKernel
    cost: float

    @property
    def nodes(self) -> frozenset[str]:
        return self.candidate.nodes

    @property
    def target(self) -> str:
        return self.candidate.target

    @property
    def label(self) -> str:
        return self.candidate.label


@dataclass(frozen=True, slots=True)
class Plan:
    """
    Kernels in an order in which they can run, disjoint, covering every operator call.

    `cost` is the sum of their costs in seconds.
    """

    graph: Graph = field(repr=False)
    kernels: tuple[PlannedKernel, ...]

    @property
    def cost(self) -> float:
        return sum(kernel.cost for kernel in self.kernels)

    @property
    def candidates(self) -> tuple[CandidateKernel, ...]:
        return tuple(kernel.candidate for kernel in self.kernels)


class NoPlanError(Exception):
    """No cover exists: `nodes` are operator calls without a feasible candidate, by name."""

    def __init__(self, graph: Graph, nodes: OpSet) -> None:
        self.nodes = tuple(graph.nodes[index].name for index in members(nodes))
        named = ", ".join(f"`{name}`" for name in self.nodes[:5])
        more = f" and {len(self.nodes) - 5} more" if len(self.nodes) > 5 else ""
        super().__init__(f"no target has a kernel for {named}{more}")


class Problem:
    """
    Cover the operator calls of `graph` with disjoint `candidates` at the least cost.

    `cost` is asked at most once per candidate, and only when a search wants to know.
    """

    def __init__(
        self, graph: Graph, candidates: Iterable[CandidateKernel], cost: CostFunction
    ) -> None:
        self.graph = graph
        self.candidates = tuple(candidates)
        self._cost = cost
        self._known: dict[CandidateKernel, float | Infeasible] = {}

    def cost(self, candidate: CandidateKernel) -> float | Infeasible:
        known = self._known.get(candidate)
        if known is None:
            known = self._known[candidate] = self._cost(candidate)
        return known

    @cached_property
    def starting_at(self) -> dict[int, tuple[CandidateKernel, ...]]:
        """Candidates by their first operator call, larger ones first, then as proposed."""
        starts: dict[int, list[CandidateKernel]] = {}
        for candidate in self.candidates:
            calls = candidate.sub_graph.inside & self.graph.calls
            if calls:
                starts.setdefault(first(calls), []).append(candidate)
        return {
            index: tuple(sorted(found, key=lambda c: -c.sub_graph.inside.bit_count()))
            for index, found in starts.items()
        }

    def no_plan(self) -> NoPlanError:
        """The error that says which calls no feasible candidate covers."""
        covered = 0
        for candidate in self.candidates:
            if not isinstance(self.cost(candidate), Infeasible):
                covered |= candidate.sub_graph.inside
        bare = self.graph.calls & ~covered
        return NoPlanError(self.graph, bare or self.graph.calls)

    def plan(self, chosen: Sequence[CandidateKernel]) -> Plan:
        """The plan of the feasible candidates `chosen`, which cover the graph."""
        kernels = []
        for candidate in in_execution_order(self.graph, chosen):
            cost = self.cost(candidate)
            assert not isinstance(cost, Infeasible), cost.reason
            kernels.append(PlannedKernel(candidate, cost))
        return Plan(self.graph, tuple(kernels))


class CyclicPlanError(Exception):
    """Kernels that wait for each other's results."""


def in_execution_order(
    graph: Graph, kernels: Sequence[CandidateKernel]
) -> tuple[CandidateKernel, ...]:
    """
    `kernels` so that each comes after those whose results it needs; where several could
    come next, the one with the first node. Raises `CyclicPlanError` where there is no such order.
    """
    remaining = sorted(kernels, key=lambda k: k.sub_graph.order)
    needs = _needs(graph, [kernel.sub_graph.inside for kernel in remaining])
    ready_first: list[CandidateKernel] = []
    done: set[int] = set()
    waiting = dict(enumerate(remaining))
    while waiting:
        ready = next((i for i in waiting if needs[i] <= done), None)
        if ready is None:
            raise CyclicPlanError("kernels " + ", ".join(k.label for k in waiting.values()))
        ready_first.append(waiting.pop(ready))
        done.add(ready)
    return tuple(ready_first)


def is_acyclic(graph: Graph, insides: Sequence[OpSet]) -> bool:
    """Whether kernels of these disjoint sets of nodes can run one after the other."""
    needs = _needs(graph, insides)
    done: set[int] = set()
    waiting = set(range(len(insides)))
    while waiting:
        ready = {i for i in waiting if needs[i] <= done}
        if not ready:
            return False
        done |= ready
        waiting -= ready
    return True


def _needs(graph: Graph, insides: Sequence[OpSet]) -> list[set[int]]:
    """For each set, the others that it takes a value from, looking through free nodes."""
    owner = {index: k for k, inside in enumerate(insides) for index in members(inside)}
    return [_producers(graph, inside, owner) - {k} for k, inside in enumerate(insides)]


def _producers(graph: Graph, inside: OpSet, owner: dict[int, int]) -> set[int]:
    found: set[int] = set()
    pending = graph.input(inside)
    seen = 0
    while pending:
        seen |= pending
        further = 0
        for index in members(pending):
            if index in owner:
                found.add(owner[index])
            else:
                further |= graph.inputs_of[index]
        pending = further & ~seen
    return found
