"""How much more the best plan costs if it must contain a certain kernel."""

from collections.abc import Mapping

from collage_dsl.graph import CandidateKernel
from collage_dsl.search.auto import auto
from collage_dsl.search.greedy import rank_of
from collage_dsl.search.moves import Key, Move, Moves
from collage_dsl.search.plan import NoPlanError, Plan
from collage_dsl.search.problem import SECOND, Problem
from collage_dsl.search.pruning import usable

BUDGET = 20_000
"""Up to this number of states, all regrets are computed at once."""


def regrets(
    problem: Problem, plan: Plan, *, budget: int = BUDGET
) -> dict[CandidateKernel, float | None]:
    """
    For each candidate, how many seconds more the best plan with this candidate costs than
    `plan`, which is a cheapest one; None if no plan has the candidate. Exact; asks for every
    cost.

    The cost from the start to each state, and from each state to the end, give this for all
    candidates at once. If there are more than `budget` states, there is one search for each
    candidate instead, which takes much longer.
    """
    least = rank_of(problem, plan.candidates)[0]
    candidates = usable(problem)
    graph = _StateGraph(problem, Moves(problem, candidates))
    if graph.grown(budget):
        best: Mapping[CandidateKernel, int] = graph.best()
    else:
        best = {each: cost for each in candidates if (cost := _with(problem, each)) is not None}
    return {
        each: (best[each] - least) / SECOND if each in best else None for each in problem.candidates
    }


class _StateGraph:
    """All states that can be reached, the steps between them, and the least cost to each."""

    def __init__(self, problem: Problem, moves: Moves) -> None:
        self.problem = problem
        self.moves = moves
        self.cost: dict[Key, int] = {moves.start: 0}
        self.steps: list[tuple[Key, Move, int, Key]] = []
        """The steps that lead to a state come before the steps that leave it."""

    def grown(self, budget: int) -> bool:
        """Build the graph; False if it would have more than `budget` states."""
        layers: dict[int, list[Key]] = {self.moves.start[0]: [self.moves.start]}
        while layers:
            for key in layers.pop(min(layers)):
                for move in self.moves.from_(key):
                    self._step(key, move, layers)
                if len(self.cost) > budget:
                    return False
        return True

    def _step(self, key: Key, move: Move, layers: dict[int, list[Key]]) -> None:
        after = self.moves.after(key, move.place)
        price = None if after is None else self.problem.price(move.candidate)
        if after is None or price is None:
            return
        cost = self.cost[key] + price
        if after not in self.cost:
            self.cost[after] = cost
            layers.setdefault(after[0], []).append(after)
        self.cost[after] = min(cost, self.cost[after])
        self.steps.append((key, move, price, after))

    def best(self) -> dict[CandidateKernel, int]:
        """The cost of the best plan with each candidate that some plan has."""
        rest = {key: 0 for key in self.cost if self.moves.is_goal(key)}
        best: dict[CandidateKernel, int] = {}
        for key, move, price, after in reversed(self.steps):
            if after in rest:
                onward = price + rest[after]
                rest[key] = min(onward, rest.get(key, onward))
                through = self.cost[key] + onward
                best[move.candidate] = min(through, best.get(move.candidate, through))
        return best


def _with(problem: Problem, candidate: CandidateKernel) -> int | None:
    """The cost of the best plan with `candidate`."""
    if problem.price(candidate) is None:
        return None
    inside = candidate.sub_graph.inside
    others = [each for each in problem.candidates if not each.sub_graph.inside & inside]
    try:
        plan = auto(Problem(problem.graph, [candidate, *others], problem.cost))
    except NoPlanError:
        return None
    return rank_of(problem, plan.candidates)[0]
