"""The cheapest cover as a shortest path over sets of covered nodes."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from collage_dsl.search.moves import CHANCE_BITS, Block, Key, Move, Moves
from collage_dsl.search.plan import Plan
from collage_dsl.search.problem import Problem
from collage_dsl.search.pruning import least_by_call, usable
from collage_dsl.search.tally import ASKED_FOR, Tally

Rank = tuple[int, int, int, int]
"""
A lower bound of what a plan through a state costs, without the least costs of all calls; and the
demotion, the number of kernels, and the sum of what decides between equally good kernels, so far.
A lower rank is better; no step makes it lower.
"""


LOOKED_AHEAD = 20_000
"""
How many states of a block are expanded at most to choose the kernels to price first. It is never
more than half of the states that a search may expand.
"""


_BEYOND = 2
"""Assumed excess of a cost over its lower bound, in bounds, if not more than that is predicted."""

_TOGETHER = 4
"""
Of so many kernels of a block, one is priced before the block is searched again: more, and many are
priced that the costs of the others would rule out; fewer, and kernels are not built side by side.
"""


class BudgetSpentError(Exception):
    """A search has expanded as many states of a block as it may, and has found no plan yet."""


class _State(NamedTuple):
    """
    A state, and how it was reached.

    A named tuple, because many are made and a dataclass takes longer to make.
    """

    key: Key
    rank: Rank
    is_priced: bool = True
    """Whether `rank` has the cost of the last kernel. If not, it has its lower bound."""
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
    fewest kernels, then one with kernels of the targets that come first, then the one with the
    least sum of `Move.chance`. So it does not depend on the order in which costs become known.

    Raises `NoPlanError`, and `BudgetSpentError` if more than `budget` states of one block would
    have to be expanded. `moves` are the moves of the
    `usable` candidates, if they are known already. `because` says in the record why `dijkstra` was
    used.

    A state is a set of covered nodes, by rank. Only candidates whose first call is the next
    uncovered one extend it, so that each set of kernels is reached in one order only (Collage
    RFC, phase 3).

    Costs are asked for late: a kernel enters the queue with its lower bound, and is priced
    when nothing better is left. States are ordered by their cost plus the least cost of their
    uncovered calls (A*). If the problem has lower bounds above 0, costs are assumed to be
    expensive to get, and are asked for even later: see `_looking_ahead`.
    """
    tally = Tally(problem, "dijkstra", because)
    spent = Counter[int]()
    moves = moves or Moves(problem, usable(problem))
    chosen = None
    if problem.predicts or any(problem.least(move.candidate) for move in moves):
        ahead = LOOKED_AHEAD if budget is None else min(LOOKED_AHEAD, budget // 2)
        chosen = _looking_ahead(problem, moves, tally, spent, ahead)
    if chosen is None:
        try:
            chosen = [
                _Search(problem, moves, block, tally, spent, budget).best()
                for block in moves.blocks
            ]
        except BudgetSpentError:
            raise BudgetSpentError(f"{budget} states were not enough") from None
    if moves.calls and not moves.blocks:
        raise problem.no_plan()
    return tally.plan([move.candidate for part in chosen for move in part])


def _looking_ahead(
    problem: Problem, moves: Moves, tally: Tally, spent: Counter[int], most: int
) -> list[list[Move]] | None:
    """
    The moves of a best plan, by block: find the best plan with lower bounds for the costs that are
    not known, ask for some of these costs, and repeat until all costs of the best plan are known.

    None if `most` states are not enough for a block.
    """
    chosen: list[list[Move]] = [[] for _ in moves.blocks]
    unsolved = list(range(len(chosen)))
    is_behind = False  # whether costs became known after a block was solved
    while unsolved:
        is_new = problem.foresee()
        is_behind = len(unsolved) < len(chosen) and (is_behind or is_new)
        for number in unsolved:
            search = _Search(problem, moves, moves.blocks[number], tally, spent, most, late=False)
            try:
                chosen[number] = search.best()
            except BudgetSpentError:
                return None
        unknown = [[m for m in part if not problem.is_asked(m.candidate)] for part in chosen]
        unsolved = [number for number, some in enumerate(unknown) if some]
        if not unsolved and problem.predicts and is_behind:
            unsolved = list(range(len(chosen)))
            continue
        telling = most_telling(problem, [unknown[number] for number in unsolved])
        problem.ask_alike(move.candidate for move in telling)
    return chosen


def most_telling(problem: Problem, unknown: Iterable[Sequence[Move]]) -> list[Move]:
    """
    The moves to price next: of each block a quarter, and at least one. These are the ones that will
    probably cost the most above their lower bounds; of equal ones, those with the fewest calls.
    Their costs will probably rule out the most plans.
    """

    def order(move: Move) -> tuple[int, int]:
        bound = problem.bound(move.candidate)
        beyond = problem.foreseen(move.candidate) - bound
        return -(beyond if beyond > 0 else _BEYOND * bound), move.place.calls.bit_count()

    found = (sorted(some, key=order)[: -(-len(some) // _TOGETHER)] for some in unknown)
    return sorted((move for some in found for move in some), key=order)


class _Search:
    """The search for the best way to cover the calls of a block."""

    def __init__(
        self,
        problem: Problem,
        moves: Moves,
        block: Block,
        tally: Tally,
        spent: Counter[int],
        budget: int | None,
        *,
        late: bool = True,
    ) -> None:
        """
        Takes lower bounds for unknown costs, and asks for these costs only if `late`. Counts the
        states in `spent`, by the first call of the block.
        """
        self.problem = problem
        self.moves = moves
        self.block = block
        self.tally = tally
        self.budget = budget
        self.spent = spent
        self.worth: Mapping[int, int] = defaultdict(int)
        self.ties = {move.number: self._tie(move) for move in block.moves}
        self.prices: dict[int, int | None] = {}
        if problem.has_bounds or any(problem.is_asked(each.candidate) for each in block.moves):
            self.least = least_by_call(problem, block.moves)
            self.worth = {move.number: self._worth(move) for move in block.moves}
            self.prices = {
                move.number: problem.estimate(move.candidate)
                for move in block.moves
                if not late or problem.is_asked(move.candidate)
            }
        self.best_rank: dict[Key, Rank] = {}
        self.queue: list[tuple[Rank, int, _State]] = []
        self.order = count()

    def best(self) -> list[Move]:
        """The moves of a best plan in the block."""
        self.reach(_State((self.block.start, 0, ()), (0, 0, 0, 0)))
        while self.queue:
            rank, _, state = heapq.heappop(self.queue)
            if not state.is_priced:
                self.price(state)
            elif rank <= self.best_rank[state.key]:
                if state.key[0] == self.block.end:
                    return _path(state)
                self.expand(state)
        raise self.problem.no_plan()

    def _tie(self, move: Move) -> int:
        """The order of the target, then the chance of the kernel; both can be summed up."""
        order = self.problem.order_of_targets[move.candidate.target]
        return (order << 2 * CHANCE_BITS) + move.chance

    def _worth(self, move: Move) -> int:
        """The least that the calls of a candidate cost in any plan."""
        return sum(self.least.get(index, 0) for index in move.place.indexes)

    def reach(self, state: _State) -> None:
        """Put a state in the queue, unless an equally good state with the same key is known."""
        if self.is_beaten(state.key, state.rank):
            return
        if state.is_priced:
            self.best_rank[state.key] = state.rank
        heapq.heappush(self.queue, (state.rank, next(self.order), state))

    def is_beaten(self, key: Key, rank: Rank) -> bool:
        """Whether a state with this `key` is known that is as good."""
        known = self.best_rank.get(key)
        return known is not None and rank >= known

    def expand(self, state: _State) -> None:
        if self.spent[self.block.start] == self.budget:
            raise BudgetSpentError
        self.spent[self.block.start] += 1
        self.tally.explored()
        key, place = None, None
        for move in self.moves.from_(state.key):
            if move.place is not place:  # moves with the same place mostly follow each other
                key, place = self.moves.after(state.key, move.place), move.place
            if key is not None:
                self.step(state, key, move)

    def step(self, state: _State, key: Key, move: Move) -> None:
        """
        Reach the state after `move`. Use the price of the move if it is known, or if it would be
        asked for next anyway; otherwise use its lower bound.
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
        cost, demotion, kernels, tie = state.rank
        beyond = price - self.worth[move.number]
        tie += self.ties[move.number]
        return cost + beyond, demotion + move.demotion, kernels + 1, tie


def _path(state: _State) -> list[Move]:
    chosen = []
    while state.before is not None and state.by is not None:
        chosen.append(state.by)
        state = state.before
    return chosen[::-1]
