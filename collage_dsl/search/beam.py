"""A strategy with bounded time: a good plan, and how much a cheaper one may save at most."""

from collections.abc import Mapping
from dataclasses import dataclass

from collage_dsl.graph import CandidateKernel
from collage_dsl.search.greedy import greedy, rank_of
from collage_dsl.search.milp import has_solver
from collage_dsl.search.moves import Key, Move, Moves
from collage_dsl.search.plan import Plan
from collage_dsl.search.problem import SECOND, Problem
from collage_dsl.search.pruning import least_by_call, usable
from collage_dsl.search.tally import ASKED_FOR, Tally

WIDTH = 100


@dataclass(frozen=True, slots=True)
class _State:
    """
    `rank` compares states with the same next call. It begins with the cost of the taken kernels
    above the worth of the calls that they cover.
    """

    key: Key
    rank: tuple[int, int, int]
    before: "_State | None" = None
    by: Move | None = None


def beam(problem: Problem, *, width: int = WIDTH, because: str = ASKED_FOR) -> Plan:
    """
    A plan that costs no more than that of `greedy`; asks for every cost. Raises `NoPlanError`.

    Calls are covered in the order of `dijkstra`. Of the states with the same next call, the best
    `width` are expanded: those with the smallest cost above the worth of their calls. If none
    of them leads to a plan, twice as many are tried, and so on. The record of the plan has the
    lower bound. If no state was left out, the plan is proven to be the best. Raises ValueError
    for a `width` below 1. `because` says in the record why `beam` was used.
    """
    if width < 1:
        raise ValueError(f"a beam keeps 1 state or more, not {width}")
    tally = Tally(problem, "beam", because)
    moves = Moves(problem, usable(problem))
    quick = greedy(problem, moves)
    if quick is not None:
        tally.found(rank_of(problem, quick)[0])
    worth, bound = _worth(problem, moves)
    while True:
        search = _Beam(problem, moves, worth, width, tally)
        found = search.best()
        if found is not None or quick is not None or search.is_complete:
            break
        width *= 2
    plans = [plan for plan in (found, quick) if plan is not None]
    if not plans:
        raise problem.no_plan()
    chosen = min(plans, key=lambda plan: rank_of(problem, plan))
    return tally.plan(chosen, None if search.is_complete else bound)


def _worth(problem: Problem, moves: Moves) -> tuple[Mapping[int, int], int]:
    """The worth of each call, and a lower bound of the cost of every plan, in femtoseconds."""
    if has_solver():
        from collage_dsl.search.columns import relaxation  # scipy takes half a second to load

        relaxed = relaxation(problem)
        index = problem.graph.index
        return {index(n): round(w * SECOND) for n, w in relaxed.worth.items()}, relaxed.bound
    problem.ask(moves.candidates)
    least = least_by_call(problem, moves)
    return least, sum(least.values())


class _Beam:
    def __init__(
        self,
        problem: Problem,
        moves: Moves,
        worth: Mapping[int, int],
        width: int,
        tally: Tally,
    ) -> None:
        self.problem = problem
        self.moves = moves
        self.width = width
        self.tally = tally
        self.waiting: dict[int, dict[Key, _State]] = {}
        """The states to expand, by next call: the best state of each key."""
        self.goal: _State | None = None
        self.is_complete = True
        self.surplus = {move.number: self._surplus(move, worth) for move in moves}

    def best(self) -> tuple[CandidateKernel, ...] | None:
        self.reach(_State(self.moves.start, (0, 0, 0)))
        while self.waiting:
            here = self.waiting.pop(min(self.waiting))
            kept = sorted(here.values(), key=lambda state: state.rank)
            self.is_complete &= len(kept) <= self.width
            for state in kept[: self.width]:
                self.expand(state)
        return None if self.goal is None else _chosen(self.goal)

    def expand(self, state: _State) -> None:
        self.tally.explored()
        for move in self.moves.from_(state.key):
            surplus = self.surplus[move.number]
            key = None if surplus is None else self.moves.after(state.key, move.place)
            if key is not None and surplus is not None:
                cost, demotion, kernels = state.rank
                rank = cost + surplus, demotion + move.demotion, kernels + 1
                self.reach(_State(key, rank, state, move))

    def reach(self, state: _State) -> None:
        if self.moves.is_goal(state.key):
            if self.goal is None or state.rank < self.goal.rank:
                self.goal = state
            return
        here = self.waiting.setdefault(state.key[0], {})
        known = here.get(state.key)
        if known is None or state.rank < known.rank:
            here[state.key] = state

    def _surplus(self, move: Move, worth: Mapping[int, int]) -> int | None:
        """The cost of a candidate above the worth of its calls; None if it is infeasible."""
        price = self.problem.price(move.candidate)
        return None if price is None else price - sum(worth.get(i, 0) for i in move.place.indexes)


def _chosen(state: _State) -> tuple[CandidateKernel, ...]:
    chosen = []
    while state.before is not None and state.by is not None:
        chosen.append(state.by.candidate)
        state = state.before
    return tuple(chosen)
