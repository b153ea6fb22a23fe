"""A strategy that tries every cover. The other strategies are tested against it."""

from collections.abc import Iterator

from collage_dsl.cost import Infeasible
from collage_dsl.graph import CandidateKernel, OpSet, first
from collage_dsl.search.execution_order import is_acyclic
from collage_dsl.search.plan import Plan
from collage_dsl.search.problem import Problem
from collage_dsl.search.tally import Tally


def exhaustive(problem: Problem) -> Plan:
    """
    A cheapest plan, found by trying every disjoint cover; of equally cheap ones, one with the
    highest priority, then one with the fewest kernels. Raises `NoPlanError`.

    The time grows exponentially; use it for graphs of about ten operator calls.
    """
    best: tuple[tuple[int, int, int], tuple[CandidateKernel, ...]] | None = None
    tally = Tally(problem, "exhaustive")
    for chosen in covers(problem):
        tally.explored()
        cost = sum(_price(problem, candidate) for candidate in chosen)
        rank = cost, sum(map(problem.demotion, chosen)), len(chosen)
        if best is None or rank < best[0]:
            best = rank, chosen
            tally.found(cost)
    if best is None:
        raise problem.no_plan()
    return tally.plan(best[1])


def covers(problem: Problem) -> Iterator[tuple[CandidateKernel, ...]]:
    """Every choice of feasible candidates that covers the graph and whose kernels can all run."""
    for chosen in _disjoint(problem, 0):
        if is_acyclic(problem.graph, chosen):
            yield chosen


def _disjoint(problem: Problem, covered: OpSet) -> Iterator[tuple[CandidateKernel, ...]]:
    uncovered = problem.places.calls & ~covered
    if not uncovered:
        yield ()
        return
    for candidate, ranks in problem.starting_at.get(first(uncovered), ()):
        if ranks & covered or isinstance(problem.cost(candidate), Infeasible):
            continue
        for rest in _disjoint(problem, covered | ranks):
            yield (candidate, *rest)


def _price(problem: Problem, candidate: CandidateKernel) -> int:
    price = problem.price(candidate)
    assert price is not None
    return price
