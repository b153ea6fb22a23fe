"""The cheapest cover as a shortest path over sets of covered nodes."""

import heapq
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import count
from typing import NamedTuple

from collage_dsl.graph import Kind, members
from collage_dsl.search.moves import Key, Move, Moves
from collage_dsl.search.plan import Plan, Problem
from collage_dsl.search.pruning import least_by_call, usable
from collage_dsl.search.tally import ASKED_FOR, Tally

Rank = tuple[int, int, int]
"""
The least that a plan through a state can cost, its demotion and kernels so far. Less is
better; no step makes it less.
"""


LOOKED_AHEAD = 20_000
"""
So many states are expanded, at most, to choose what to price before anything else is; and no more
than half of those that a search may expand.
"""


_BEYOND = 2.0
"""A kernel is taken to cost so many times its lower bound beyond that, until more is known."""


class BudgetSpentError(Exception):
    """A search has expanded as many states as it may, and has not come to an end."""


class _State(NamedTuple):
    """A way to a state; no dataclass, since so many are made."""

    key: Key
    rank: Rank
    is_priced: bool = True
    """Whether the cost of the last kernel is known: its lower bound stands in for it until then."""
    before: "_State | None" = None
    by: Move | None = None


def dijkstra(
    problem: Problem,
    *,
    budget: int | None = None,
    moves: Moves | None = None,
    because: str = ASKED_FOR,
) -> Plan:
    """
    A cheapest plan; of equally cheap ones, one with the highest priority, then one with the
    fewest kernels, then the one found first. Raises `NoPlanError`, and `BudgetSpentError` where
    more than `budget` states would have to be expanded. `moves` are those of the candidates that
    are `usable`, where they are known already. The record says why `dijkstra`: `because`.

    A state is a set of covered nodes, by rank. Only candidates whose first call is the next
    uncovered one extend it, so that each set of kernels is reached in one order only (Collage
    RFC, phase 3).

    Costs are asked for late: a kernel enters the queue with its lower bound, and is priced
    when nothing that is better is left. States are ordered by what they cost and the least
    that their uncovered calls will cost besides (A*). Where the problem has lower bounds above 0,
    costs are taken to be dear, and asked for later still.
    """
    tally = Tally(problem, "dijkstra", because)
    moves = moves or Moves(problem, usable(problem))
    chosen = None
    if any(problem.least(move.candidate) for move in moves):
        ahead = LOOKED_AHEAD if budget is None else min(LOOKED_AHEAD, budget // 2)
        chosen = _looking_ahead(problem, moves, tally, ahead)
    if chosen is None:
        try:
            chosen = _Search(problem, moves, tally, budget).moves_of_best()
        except BudgetSpentError:
            raise BudgetSpentError(f"{budget} states were not enough") from None
    return tally.plan([move.candidate for move in chosen])


def _looking_ahead(problem: Problem, moves: Moves, tally: Tally, most: int) -> list[Move] | None:
    """
    A plan that is best where what is not known costs as little as it can; then some of it is
    asked for, until all of a plan is known, which no other can be better than.

    No plan where `most` states are not enough.
    """
    while True:
        search = _Search(problem, moves, tally, most)
        search.prices = {move.number: problem.estimate(move.candidate) for move in moves}
        try:
            chosen = search.moves_of_best()
        except BudgetSpentError:
            return None
        unknown = [move for move in chosen if not problem.is_asked(move.candidate)]
        if not unknown:
            return chosen
        for move in _telling(problem, moves, unknown):
            problem.cost(move.candidate)


def _telling(problem: Problem, moves: Moves, unknown: Iterable[Move]) -> Iterable[Move]:
    """
    One of each block: what will likely cost the most beyond the least that it can, judged by
    what was priced of its kind; of those that of the fewest calls. What it costs rules out the
    most plans.
    """
    beyond = _beyond(problem, moves)

    def order(move: Move) -> tuple[float, int]:
        least = problem.least(move.candidate)
        return -least * beyond.get(_kind(move), _BEYOND), move.place.calls.bit_count()

    telling: dict[int, Move] = {}
    for move in sorted(unknown, key=order):
        telling.setdefault(bisect(moves.blocks, move.place.start), move)
    return telling.values()


def _beyond(problem: Problem, moves: Moves) -> dict[Kind, float]:
    """By kind, how many times their lower bounds the kernels so far cost beyond these."""
    sums: dict[Kind, tuple[int, int]] = {}
    for move in moves:
        if problem.is_asked(move.candidate) and (price := problem.price(move.candidate)):
            prices, bounds = sums.get(_kind(move), (0, 0))
            sums[_kind(move)] = prices + price, bounds + problem.least(move.candidate)
    return {kind: prices / bounds - 1 for kind, (prices, bounds) in sums.items() if bounds}


def _kind(move: Move) -> Kind:
    return move.candidate.graph.kind(move.candidate.sub_graph.inside)


class _Search:
    def __init__(self, problem: Problem, moves: Moves, tally: Tally, budget: int | None) -> None:
        self.problem = problem
        self.moves = moves
        self.tally = tally
        self.budget = budget
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

    def moves_of_best(self) -> list[Move]:
        """A cheapest way to the end."""
        self.reach(_State(self.moves.start, (sum(self.least.values()), 0, 0)))
        while self.queue:
            rank, _, state = heapq.heappop(self.queue)
            if not state.is_priced:
                self.price(state)
            elif rank <= self.best[state.key]:
                if self.moves.is_goal(state.key):
                    return _path(state)
                self.expand(state)
        raise self.problem.no_plan()

    def _worth(self, move: Move) -> int:
        """What the calls of a candidate cost at the least in any plan."""
        calls = move.candidate.sub_graph.inside & self.problem.graph.calls
        return sum(self.least.get(index, 0) for index in members(calls))

    def reach(self, state: _State) -> None:
        """Put a state in the queue unless one that is as good has been."""
        if self.is_beaten(state.key, state.rank):
            return
        if state.is_priced:
            self.best[state.key] = state.rank
        heapq.heappush(self.queue, (state.rank, next(self.order), state))

    def is_beaten(self, key: Key, rank: Rank) -> bool:
        """Whether there has been a way to `key` that is as good."""
        known = self.best.get(key)
        return known is not None and rank >= known

    def expand(self, state: _State) -> None:
        if self.tally.states == self.budget:
            raise BudgetSpentError
        self.tally.explored()
        key, place = None, None
        for move in self.moves.from_(state.key):
            if move.place is not place:  # mostly those of one place come one after the other
                key, place = self.moves.after(state.key, move), move.place
            if key is not None:
                self.step(state, key, move)

    def step(self, state: _State, key: Key, move: Move) -> None:
        """
        Reach what `move` leads to: at its price where that is known, or where it would be asked
        for next anyway; else at the least that it can cost.
        """
        if move.number not in self.prices:
            rank = self.rank(state, move, self.problem.least(move.candidate))
            if rank[0] > state.rank[0]:
                self.reach(_State(key, rank, False, state, move))
                return
            if self.is_beaten(key, rank):
                return
            self.prices[move.number] = self.problem.price(move.candidate)
        price = self.prices[move.number]
        if price is not None:
            self.reach(_State(key, self.rank(state, move, price), True, state, move))

    def price(self, state: _State) -> None:
        """Put a state back with the cost of its last kernel, if it can still be the best."""
        if self.is_beaten(state.key, state.rank):
            return
        assert state.by is not None
        assert state.before is not None
        self.prices[state.by.number] = self.problem.price(state.by.candidate)
        self.step(state.before, state.key, state.by)

    def rank(self, state: _State, move: Move, price: int) -> Rank:
        cost, demotion, kernels = state.rank
        beyond = price - self.worth[move.number]
        return cost + beyond, demotion + move.demotion, kernels + 1


def _path(state: _State) -> list[Move]:
    chosen = []
    while state.before is not None and state.by is not None:
        chosen.append(state.by)
        state = state.before
    return chosen[::-1]
