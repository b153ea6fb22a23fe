"""The cheapest cover as a shortest path over sets of covered nodes."""

import heapq
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count

from collage_dsl.graph import CandidateKernel, members
from collage_dsl.search.moves import Key, Move, Moves
from collage_dsl.search.plan import Plan, Problem
from collage_dsl.search.pruning import least_by_call, usable

Rank = tuple[int, int, int]
"""
The least that a plan through a state can cost, its demotion and kernels so far. Less is
better; no step makes it less.
"""


class BudgetSpentError(Exception):
    """A search has expanded as many states as it may, and has not come to an end."""


@dataclass(frozen=True, slots=True)
class _State:
    key: Key
    rank: Rank
    is_priced: bool = True
    """Whether the cost of the last kernel is known: its lower bound stands in for it until then."""
    before: "_State | None" = None
    by: Move | None = None


def dijkstra(problem: Problem, *, budget: int | None = None, moves: Moves | None = None) -> Plan:
    """
    A cheapest plan; of equally cheap ones, one with the highest priority, then one with the
    fewest kernels, then the one found first. Raises `NoPlanError`, and `BudgetSpentError` where
    more than `budget` states would have to be expanded. `moves` are those of the candidates that
    are `usable`, where they are known already.

    A state is a set of covered nodes, by rank. Only candidates whose first call is the next
    uncovered one extend it, so that each set of kernels is reached in one order only (Collage
    RFC, phase 3).

    Costs are asked for late: a kernel enters the queue with its lower bound, and is priced
    when nothing that is better is left. States are ordered by what they cost and the least
    that their uncovered calls will cost besides (A*).
    """
    return _Search(problem, budget, moves or Moves(problem, usable(problem))).plan()


class _Search:
    def __init__(self, problem: Problem, budget: int | None, moves: Moves) -> None:
        self.problem = problem
        self.budget = budget
        self.moves = moves
        self.least = least_by_call(problem, moves.candidates)
        self.worth: Mapping[int, int] = defaultdict(int)
        self.prices: dict[int, int | None] = {}
        if problem.is_informed:
            self.worth = {move.number: self._worth(move) for move in moves}
            self.prices = {
                move.number: problem.price(move.candidate)
                for move in moves
                if problem.is_asked(move.candidate)
            }
        self.best: dict[Key, Rank] = {}
        self.queue: list[tuple[Rank, int, _State]] = []
        self.order = count()
        self.expanded = 0

    def plan(self) -> Plan:
        self.reach(_State(self.moves.start, (sum(self.least.values()), 0, 0)))
        while self.queue:
            rank, _, state = heapq.heappop(self.queue)
            if not state.is_priced:
                self.price(state)
            elif rank <= self.best[state.key]:
                if self.moves.is_goal(state.key):
                    record = self.problem.record("dijkstra", self.expanded)
                    return self.problem.plan(_path(state), record)
                self.expand(state)
        raise self.problem.no_plan()

    def _worth(self, move: Move) -> int:
        """What the calls of a candidate cost at the least in any plan."""
        calls = move.candidate.sub_graph.inside & self.problem.graph.calls
        return sum(self.least[index] for index in members(calls))

    def reach(self, state: _State) -> None:
        """Put a state in the queue unless one that is as good has been."""
        known = self.best.get(state.key)
        if known is not None and state.rank >= known:
            return
        if state.is_priced:
            self.best[state.key] = state.rank
        heapq.heappush(self.queue, (state.rank, next(self.order), state))

    def expand(self, state: _State) -> None:
        if self.expanded == self.budget:
            raise BudgetSpentError(f"{self.expanded} states were not enough")
        self.expanded += 1
        for move in self.moves.from_(state.key):
            key = self.moves.after(state.key, move)
            if key is not None:
                self.step(state, key, move)

    def step(self, state: _State, key: Key, move: Move) -> None:
        """Reach what `move` leads to, at its price, or else at the least that it can be."""
        is_priced = move.number in self.prices
        price = self.prices[move.number] if is_priced else self.problem.least(move.candidate)
        if price is not None:
            self.reach(_State(key, self.rank(state, move, price), is_priced, state, move))

    def price(self, state: _State) -> None:
        """Put a state back with the cost of its last kernel, if it can still be the best."""
        known = self.best.get(state.key)
        if known is not None and state.rank >= known:
            return
        assert state.by is not None
        assert state.before is not None
        self.prices[state.by.number] = self.problem.price(state.by.candidate)
        self.step(state.before, state.key, state.by)

    def rank(self, state: _State, move: Move, price: int) -> Rank:
        cost, demotion, kernels = state.rank
        beyond = price - self.worth[move.number]
        return cost + beyond, demotion + move.demotion, kernels + 1


def _path(state: _State) -> list[CandidateKernel]:
    chosen = []
    while state.before is not None and state.by is not None:
        chosen.append(state.by.candidate)
        state = state.before
    return chosen[::-1]
