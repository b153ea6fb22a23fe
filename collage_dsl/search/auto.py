"""The strategy that suits a problem."""

from collections.abc import Iterable

from collage_dsl.search.dijkstra import BudgetSpentError, dijkstra
from collage_dsl.search.milp import has_solver, milp
from collage_dsl.search.moves import Move, Moves
from collage_dsl.search.plan import Plan, Problem
from collage_dsl.search.pruning import usable

BUDGET = 20_000
"""So many states `dijkstra` may expand, a second or two, before `milp` takes over."""

MOST_OPEN = 64
"""Where more kernels than this could be open at once, `dijkstra` is not begun."""


def auto(problem: Problem, *, budget: int = BUDGET) -> Plan:
    """
    A cheapest plan by `dijkstra`, which asks for the fewest costs, or by `milp` where that
    would meet too many states. The record of the plan says why. Raises `NoPlanError`.
    """
    if not has_solver():
        return dijkstra(problem, because="scipy is not installed, which milp needs")
    moves = Moves(problem, usable(problem))
    open_ = most_open(moves)
    if open_ > MOST_OPEN:
        because = f"{open_} kernels with several results may be open at once"
        return milp(problem, because=because)
    few = f"at most {open_} kernel{'s' * (open_ > 1)}" if open_ else "no kernels"
    try:
        because = f"{few} with several results can be open at once"
        return dijkstra(problem, budget=budget, moves=moves, because=because)
    except BudgetSpentError as spent:
        return milp(problem, because=f"dijkstra gave up: {spent}")


def most_open(moves: Iterable[Move]) -> int:
    """
    How many candidates make some nodes wait for others, and have nodes both before and after
    one place in the order in which `dijkstra` covers calls; the most at any place.

    Which of them are taken multiplies the states that it meets there.
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
