"""The shortest path over covered sets, in the plainest way: every cost is asked for at once."""

import heapq
from itertools import count

from collage_dsl.graph import CandidateKernel, OpSet, first
from collage_dsl.search import Plan, Problem
from collage_dsl.search.execution_order import is_acyclic


def eager(problem: Problem) -> Plan:
    """
    A best plan; asks for the cost of each kernel that some state could take which is no worse than
    the plan.
    """
    order = count()
    queue: list[tuple[tuple[int, int, int], int, OpSet, tuple[CandidateKernel, ...]]]
    queue = [((0, 0, 0), next(order), 0, ())]
    best: tuple[tuple[int, int, int], tuple[CandidateKernel, ...]] | None = None
    while queue and (best is None or queue[0][0] <= best[0]):
        (cost, demotion, kernels), _, covered, chosen = heapq.heappop(queue)
        uncovered = problem.places.calls & ~covered
        if not uncovered:
            best = best or ((cost, demotion, kernels), chosen)
            continue
        for candidate, ranks in problem.starting_at.get(first(uncovered), ()):
            if ranks & covered:
                continue
            price = problem.price(candidate)
            taken = (*chosen, candidate)
            if price is not None and is_acyclic(problem.graph, taken):
                rank = cost + price, demotion + problem.demotion(candidate), kernels + 1
                heapq.heappush(queue, (rank, next(order), covered | ranks, taken))
    if best is None:
        raise problem.no_plan()
    return problem.plan(best[1])
