"""Quick covers that take one kernel after the other and never go back, for `beam`."""

from collections.abc import Iterable, Sequence

from collage_dsl.graph import CandidateKernel
from collage_dsl.search.moves import Move, Moves
from collage_dsl.search.problem import Problem


def greedy(problem: Problem, moves: Moves) -> tuple[CandidateKernel, ...] | None:
    """
    The better of two covers. One takes the largest kernels first, as TVM applies pattern tables;
    the other takes the kernels with the least cost for each call first. None if neither covers
    the whole graph.
    """
    priced = [
        (move, price) for move in moves if (price := problem.price(move.candidate)) is not None
    ]
    by_size = sorted(priced, key=lambda pair: -pair[0].place.calls.bit_count())
    by_share = sorted(priced, key=lambda pair: pair[1] / pair[0].place.calls.bit_count())
    orders = ([move for move, _ in order] for order in (by_size, by_share))
    found = [taken for order in orders if (taken := _taken(moves, order)) is not None]
    return min(found, key=lambda taken: rank_of(problem, taken), default=None)


def rank_of(problem: Problem, chosen: Sequence[CandidateKernel]) -> tuple[int, int, int]:
    """Cost, demotion and number of kernels; lower is better. The candidates are feasible."""
    cost = sum(problem.price(each) or 0 for each in chosen)
    return cost, sum(map(problem.demotion, chosen)), len(chosen)


def _taken(moves: Moves, order: Iterable[Move]) -> tuple[CandidateKernel, ...] | None:
    key, chosen = moves.start, []
    for move in order:
        after = moves.after(key, move.place)
        if after is not None:
            key = after
            chosen.append(move.candidate)
    return tuple(chosen) if moves.is_goal(key) else None
