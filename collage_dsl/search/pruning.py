"""Leave out candidates that no cheapest plan needs, without asking for unknown costs."""

from collections.abc import Callable, Iterable

from collage_dsl.graph import CandidateKernel, OpSet, covered, members
from collage_dsl.search.moves import Move
from collage_dsl.search.problem import Problem


def usable(problem: Problem) -> tuple[CandidateKernel, ...]:
    """
    The candidates that some cover may contain, in the order proposed. Each covers a call and is
    convex.

    If only one candidate covers a call, every plan contains it, and no plan contains another
    candidate that shares a node with it. Those others are left out. After that, other calls may
    have only one candidate, so this is repeated.
    """
    left = [each for each in problem.candidates if problem.places.of(each.sub_graph)]
    forced: set[CandidateKernel] = set()
    while alone := _only_ones(problem, left) - forced:
        forced |= alone
        taken = covered(alone)
        left = [each for each in left if each in alone or not each.sub_graph.inside & taken]
    return tuple(left)


def _only_ones(problem: Problem, left: list[CandidateKernel]) -> set[CandidateKernel]:
    """The candidates that are the only one for some call."""
    once = twice = 0
    for each in left:
        calls = each.calls
        twice |= once & calls
        once |= calls
    lonely = problem.graph.calls & once & ~twice
    return {each for each in left if each.sub_graph.inside & lonely}


def undominated(
    candidates: Iterable[CandidateKernel], price: Callable[[CandidateKernel], int | None]
) -> list[CandidateKernel]:
    """
    The feasible candidates, but of those that cover the same nodes only the best: the cheapest,
    then the one with the highest priority, then the first.
    """
    best: dict[tuple[int, OpSet], tuple[tuple[int, int], CandidateKernel]] = {}
    for each in candidates:
        cost = price(each)
        if cost is None:
            continue
        rank = cost, -each.toolchain.priority
        inside = each.sub_graph.nodes
        if inside not in best or rank < best[inside][0]:
            best[inside] = rank, each
    return [each for _, each in best.values()]


def least_by_call(problem: Problem, moves: Iterable[Move]) -> dict[int, int]:
    """
    A lower bound for each call, in femtoseconds: in every plan, the kernels that cover some
    calls cost at least the sum of the bounds of all calls that they cover.

    The lower bound of each candidate is divided evenly among its calls. The bound of a call is
    its least share. Shares are rounded down, so that no sum is too high.
    """
    if not problem.is_informed:
        return dict.fromkeys(members(problem.graph.calls), 0)
    least: dict[int, int] = {}
    for move in moves:
        price = problem.estimate(move.candidate)
        if price is None:
            continue
        calls = move.place.indexes
        share = price // len(calls)
        for index in calls:
            if index not in least or share < least[index]:
                least[index] = share
    return least
