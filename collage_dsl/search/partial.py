"""The cheapest plan for a graph in which calls without a feasible kernel are left to TVM."""

from collections.abc import Sequence
from dataclasses import replace

from collage_dsl.cost import Cost, CostFunction, Infeasible
from collage_dsl.graph import (
    CandidateKernel,
    Graph,
    OpSet,
    SubGraph,
    Toolchain,
    covered,
    members,
    tensor_results,
)
from collage_dsl.search.auto import auto
from collage_dsl.search.hints import Ahead, Hints
from collage_dsl.search.plan import NoPlanError, Plan
from collage_dsl.search.problem import SECOND, Problem

LEFT_ALONE = Toolchain("(left alone)")
"""The target of calls that get no kernel. No target of a spec can have this name."""


def as_far_as_possible(problem: Problem) -> Plan:
    """
    The cheapest of the plans that leave as few calls alone as possible.

    A call that is left alone is a kernel of `LEFT_ALONE`, and costs nothing. Candidates without a
    result that is used are left out.
    """
    graph = problem.graph
    used = [each for each in problem.candidates if tensor_results(graph, each.sub_graph.inside)]
    alone = _alone(graph, graph.calls & ~covered(used))

    def bound(candidate: CandidateKernel) -> float:
        return 0.0 if candidate.toolchain == LEFT_ALONE else problem.bound(candidate) / SECOND

    try:
        whole = Problem(
            graph,
            [*used, *alone],
            _with(alone, 0.0, problem.cost),
            Hints(
                bound if problem.has_bounds else None,
                predicts=problem.predicts,
                ahead=_of_kernels(problem.ask),
            ),
            known=problem.priced,
            places=problem.places,
        )
        return auto(whole)
    except NoPlanError:
        return _with_gaps(problem, used)


def without_left_alone(plan: Plan) -> Plan:
    """`plan` without the calls that are left alone."""
    kernels = (kernel for kernel in plan.kernels if kernel.candidate.toolchain != LEFT_ALONE)
    return Plan(plan.graph, tuple(kernels))


def _with_gaps(problem: Problem, found: Sequence[CandidateKernel]) -> Plan:
    """The plan if some candidates are infeasible, or no choice of them covers all their calls."""
    graph, price = problem.graph, problem.cost
    prices = {each: seconds for each in found if not isinstance(seconds := price(each), Infeasible)}
    inside = covered(prices)
    bare, others = _alone(graph, graph.calls & ~inside), _alone(graph, inside & graph.calls)
    # Leaving one call alone that has a kernel must cost more than running all kernels.
    fine = 1 + 2 * sum(prices.values())
    cost = _with(others, fine, _with(bare, 0.0, price))
    plan = auto(Problem(graph, [*prices, *bare, *others], cost, places=problem.places))
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


def _of_kernels(ahead: Ahead) -> Ahead:
    """`ahead` for the candidates that are not left alone."""
    return lambda candidates: ahead([c for c in candidates if c.toolchain != LEFT_ALONE])
