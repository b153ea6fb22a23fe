"""What no cheapest plan needs, found without asking for a cost that is not known."""

from collections.abc import Callable, Iterable

from collage_dsl.graph import CandidateKernel, OpSet, members, spread
from collage_dsl.search.plan import Problem


def usable(problem: Problem) -> tuple[CandidateKernel, ...]:
    """
    The candidates that some cover may contain, as proposed: those with a call that do not
    wait for what waits for them.

    Where one candidate alone covers a call, every plan has it, and none has another that
    shares a node with it. Leaving those out may leave further calls with one candidate.
    """
    insides = {spread(each.sub_graph.inside) for each in problem.candidates}
    convex = {inside for inside in insides if problem.graph.is_convex(inside[1])}
    left = [
        each
        for each in problem.candidates
        if _calls(each) and spread(each.sub_graph.inside) in convex
    ]
    forced: set[CandidateKernel] = set()
    while alone := _only_ones(problem, left) - forced:
        forced |= alone
        taken = 0
        for each in alone:
            taken |= each.sub_graph.inside
        left = [each for each in left if each in alone or not each.sub_graph.inside & taken]
    return tuple(left)


def _only_ones(problem: Problem, left: list[CandidateKernel]) -> set[CandidateKernel]:
    """Those without which a call has no candidate."""
    once = twice = 0
    for each in left:
        calls = _calls(each)
        twice |= once & calls
        once |= calls
    lonely = problem.graph.calls & once & ~twice
    return {each for each in left if each.sub_graph.inside & lonely}


def undominated(
    candidates: Iterable[CandidateKernel], price: Callable[[CandidateKernel], int | None]
) -> list[CandidateKernel]:
    """
    Of the feasible ones that cover the same nodes, the one that a plan is best with: the
    cheapest, then the one of the highest priority, then the first.
    """
    best: dict[tuple[int, OpSet], tuple[tuple[int, int], CandidateKernel]] = {}
    for each in candidates:
        cost = price(each)
        if cost is None:
            continue
        rank = cost, -each.toolchain.priority
        inside = spread(each.sub_graph.inside)
        if inside not in best or rank < best[inside][0]:
            best[inside] = rank, each
    return [each for _, each in best.values()]


def least_by_call(problem: Problem, candidates: tuple[CandidateKernel, ...]) -> dict[int, int]:
    """
    By call, so much that no plan costs less than the sum of any calls' in what covers them.

    It is the least that a call costs where each candidate's least price is shared out evenly
    among its calls; rounded down, so that all sums stay below.
    """
    if not problem.is_informed:
        return dict.fromkeys(members(problem.graph.calls), 0)
    least: dict[int, int] = {}
    for each in candidates:
        price = problem.estimate(each)
        if price is None:
            continue
        calls = _calls(each)
        share = price // calls.bit_count()
        for index in members(calls):
            least[index] = min(share, least.get(index, share))
    return least


def _calls(candidate: CandidateKernel) -> OpSet:
    return candidate.sub_graph.inside & candidate.graph.calls
