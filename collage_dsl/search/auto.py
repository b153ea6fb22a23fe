"""
The default strategy: `dijkstra`, or `milp` where that would meet too many states, or `beam` where
`milp` finds no plan.
"""

from collections.abc import Iterable

from collage_dsl.search.beam import beam
from collage_dsl.search.dijkstra import BudgetSpentError, dijkstra
from collage_dsl.search.milp import has_solver, milp
from collage_dsl.search.moves import Move, Moves
from collage_dsl.search.plan import Plan
from collage_dsl.search.problem import Problem
from collage_dsl.search.pruning import usable

BUDGET = 20_000
"""How many states `dijkstra` may expand before `milp` is used; this takes a second or two."""

NODES = 1_000
"""How many nodes `milp` may take for a solution. Then the best plan so far is taken."""

MOST_OPEN = 64
"""If more kernels than this could be open at once, `milp` is used from the start."""


def auto(problem: Problem, *, budget: int = BUDGET) -> Plan:
    """
    A cheapest plan by `dijkstra`, which asks for the fewest costs, or by `milp` if `dijkstra`
    would meet too many states. If `milp` takes too many nodes, the plan may not be the cheapest.
    The record of the plan says why, and how much a cheaper one saves at most. Raises `NoPlanError`.
    """
    if not has_solver():
        return dijkstra(problem, because="scipy is not installed, which milp needs")
    moves = Moves(problem, usable(problem))
    open_ = most_open(moves)
    if open_ > MOST_OPEN:
        because = f"{open_} kernels with several results may be open at once"
        return _within_nodes(problem, because)
    few = f"at most {open_} kernel{'s' * (open_ > 1)}" if open_ else "no kernels"
    try:
        because = f"{few} with several results can be open at once"
        return dijkstra(problem, budget=budget, moves=moves, because=because)
    except BudgetSpentError as spent:
        return _within_nodes(problem, f"dijkstra gave up: {spent}")


def _within_nodes(problem: Problem, because: str) -> Plan:
    try:
        return milp(problem, budget=NODES, because=because)
    except BudgetSpentError as spent:
        return beam(problem, because=f"{because}; milp gave up: {spent}")


def most_open(moves: Iterable[Move]) -> int:
    """
    The largest number of candidates that can be open at one place in the order in which
    `dijkstra` covers calls. A candidate is open at a place if it has nodes before and after it,
    and makes some nodes wait for others.

    Each choice of open candidates is a state of its own, so their number multiplies the states.
    """
    change: dict[int, int] = {}
    for move in moves:
        if move.place.is_ragged:
            start, end = move.place.call, move.place.end + 1
            change[start] = change.get(start, 0) + 1
            change[end] = change.get(end, 0) - 1
    most = open_ = 0
    for place in sorted(change):
        open_ += change[place]
        most = max(most, open_)
    return most
