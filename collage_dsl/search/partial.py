"""The cheapest plan for a graph in which calls without a feasible kernel are left to TVM."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from collage_dsl.cost import Cost, CostFunction, Infeasible
from collage_dsl.graph import (
    CandidateKernel,
    Graph,
    OpSet,
    SubGraph,
    Toolchain,
    members,
    tensor_results,
)
from collage_dsl.search.auto import auto
from collage_dsl.search.plan import SECOND, Ahead, LowerBound, NoPlanError, Plan, Problem

LEFT_ALONE = Toolchain("(left alone)")
"""The target of calls that get no kernel. No target of a spec can have this name."""


def partial(
    graph: Graph,
    candidates: Iterable[CandidateKernel],
    cost: CostFunction,
    *,
    lower_bound: LowerBound | None = None,
    ahead: Ahead | None = None,
    known: Mapping[CandidateKernel, Cost] | None = None,
) -> Plan:
    """
    The cheapest of the plans that leave as few calls alone as possible.

    A call that is left alone is a kernel of `LEFT_ALONE`, and costs nothing. Candidates without
    a result that is used are left out. `lower_bound`, `ahead` and `known` are as in
    `search.Problem`.
    """
    found = [each for each in candidates if tensor_results(graph, each.sub_graph.inside)]
    price = cache(cost)
    alone = _alone(graph, graph.calls & ~_covered(found))
    try:
        problem = Problem(
            graph,
            [*found, *alone],
            _with(alone, 0.0, price),
            lower_bound=lower_bound and _none_if_alone(lower_bound),
            ahead=ahead and _of_kernels(ahead),
            known=known,
        )
        return auto(problem)
    except NoPlanError:
        return _with_gaps(graph, found, price)


def as_far_as_possible(problem: Problem) -> Plan:
    """`partial`, for a problem."""
    return partial(
        problem.graph,
        problem.candidates,
        problem.cost,
        lower_bound=(lambda each: problem.least(each) / SECOND) if problem.has_bounds else None,
        ahead=problem.ask,
        known=problem.priced,
    )


def without_left_alone(plan: Plan) -> Plan:
    """`plan` without the calls that are left alone."""
    kernels = (kernel for kernel in plan.kernels if kernel.candidate.toolchain != LEFT_ALONE)
    return Plan(plan.graph, tuple(kernels))


def _with_gaps(graph: Graph, found: Sequence[CandidateKernel], price: CostFunction) -> Plan:
    """The plan if some candidates are infeasible, or no choice of them covers all their calls."""
    prices = {each: seconds for each in found if not isinstance(seconds := price(each), Infeasible)}
    covered = _covered(prices)
    bare, others = _alone(graph, graph.calls & ~covered), _alone(graph, covered & graph.calls)
    # Leaving one call alone that has a kernel must cost more than running all kernels.
    fine = 1 + 2 * sum(prices.values())
    cost = _with(others, fine, _with(bare, 0.0, price))
    plan = auto(Problem(graph, [*prices, *bare, *others], cost))
    kernels = (
        replace(kernel, cost=0.0) if kernel.candidate.toolchain == LEFT_ALONE else kernel
        for kernel in plan.kernels
    )
    return Plan(graph, tuple(kernels))


def _alone(graph: Graph, calls: OpSet) -> list[CandidateKernel]:
    return [CandidateKernel(graph, SubGraph(1 << index), LEFT_ALONE) for index in members(calls)]


def _with(some: Sequence[CandidateKernel], seconds: float, others: CostFunction) -> CostFunction:
    """A cost of `seconds` for the candidates `some`, and the cost of `others` for the rest."""
    known = frozenset(some)

    def cost(candidate: CandidateKernel) -> Cost:
        return seconds if candidate in known else others(candidate)

    return cost


def _none_if_alone(bound: LowerBound) -> LowerBound:
    return lambda each: 0.0 if each.toolchain == LEFT_ALONE else bound(each)


def _covered(candidates: Iterable[CandidateKernel]) -> OpSet:
    covered = 0
    for each in candidates:
        covered |= each.sub_graph.inside
    return covered


def _of_kernels(ahead: Ahead) -> Ahead:
    """`ahead` for the candidates that are not left alone."""
    return lambda candidates: ahead([c for c in candidates if c.toolchain != LEFT_ALONE])
