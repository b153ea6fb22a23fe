"""The cheapest cover as a shortest path over sets of covered nodes."""

import heapq
from dataclasses import dataclass
from itertools import count

from collage_dsl.cost import Infeasible
from collage_dsl.graph import CandidateKernel, OpSet, first
from collage_dsl.search.plan import Plan, Problem, is_acyclic

_Key = tuple[OpSet, tuple[OpSet, ...]]
"""What is covered, and the kernels of several exits among those that cover it."""


@dataclass(frozen=True, slots=True)
class _State:
    key: _Key
    cost: float
    demotion: int
    kernels: int
    before: "_State | None" = None
    by: CandidateKernel | None = None

    @property
    def rank(self) -> tuple[float, int, int]:
        """Less is better; no step makes it less."""
        return self.cost, self.demotion, self.kernels


_WORST = (float("inf"), 0, 0)


def dijkstra(problem: Problem) -> Plan:
    """
    A cheapest plan; of equally cheap ones, one with the highest priority, then one with the
    fewest kernels, then the one found first. Raises `NoPlanError`.

    A state is a set of covered nodes, by rank. Only candidates whose first call is the next
    uncovered one extend it, so that each set of kernels is reached in one order only (Collage
    RFC, phase 3). Candidates with several exits may wait for each other; which of them were taken
    is therefore part of the state, and a step that would close a cycle is not taken.
    """
    order = count()
    start = _State((0, ()), 0.0, 0, 0)
    best = {start.key: start.rank}
    queue = [(start.rank, next(order), start)]
    while queue:
        rank, _, state = heapq.heappop(queue)
        if rank > best[state.key]:
            continue
        uncovered = problem.calls & ~state.key[0]
        if not uncovered:
            return problem.plan(_path(state))
        for candidate, ranks in problem.starting_at.get(first(uncovered), ()):
            after = _step(problem, state, candidate, ranks)
            if after and after.rank < best.get(after.key, _WORST):
                best[after.key] = after.rank
                heapq.heappush(queue, (after.rank, next(order), after))
    raise problem.no_plan()


def _step(
    problem: Problem, state: _State, candidate: CandidateKernel, ranks: OpSet
) -> _State | None:
    inside = candidate.sub_graph.inside
    covered, ragged = state.key
    if ranks & covered:
        return None
    if problem.graph.exit(inside).bit_count() > 1:
        ragged = (*ragged, inside)
        if not is_acyclic(problem.graph, ragged):
            return None
    cost = problem.cost(candidate)
    if isinstance(cost, Infeasible):
        return None
    key = (covered | ranks, ragged)
    demotion = state.demotion + problem.demotion(candidate)
    return _State(key, state.cost + cost, demotion, state.kernels + 1, state, candidate)


def _path(state: _State) -> list[CandidateKernel]:
    chosen = []
    while state.before is not None and state.by is not None:
        chosen.append(state.by)
        state = state.before
    return chosen[::-1]
