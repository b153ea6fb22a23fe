"""Proposing and choosing, which need no TVM."""

from collections.abc import Iterable, Sequence

from collage_dsl.cost import CostFunction, Infeasible
from collage_dsl.engine.tables import table_lookup
from collage_dsl.graph import CandidateKernel, Graph
from collage_dsl.rules import FusionSpec, Trace
from collage_dsl.search import NoPlanError, Plan, Problem, coalesce, dijkstra

MIXED = "mixed"
"""What reports call the plan over all targets."""

_SHOWN = 3
"""So many nodes, and reasons for each, are shown of what is not covered."""


class UncoveredError(Exception):
    """Operator calls that no target has a kernel for, and why each target has none."""


def propose(graph: Graph, *specs: FusionSpec) -> tuple[CandidateKernel, ...]:
    """The candidates of `specs`, spec by spec, each in graph order; they may overlap."""
    return tuple(candidate for spec in specs for candidate in spec.candidates(graph, _trace()))


def _trace() -> Trace:
    return Trace(lookup=table_lookup)


def choose(
    graph: Graph,
    found: Iterable[CandidateKernel],
    *,
    cost: CostFunction,
    merge: Sequence[FusionSpec] = (),
) -> Plan:
    """
    A cheapest plan of the candidates `found`. Raises `search.NoPlanError`.

    Neighbouring kernels of those specs in `merge` that say `after max_coalesce()` are merged
    afterwards, within the limits of the spec, where that costs no more.
    """
    plan = dijkstra(Problem(graph, found, cost))
    limits = {spec.name: spec.limits for spec in merge if spec.coalesce}

    def may_merge(kernel: CandidateKernel) -> bool:
        found = limits.get(kernel.target)
        return found is not None and not found.refusal(graph, kernel.sub_graph)

    return coalesce(plan, cost, may_merge) if limits else plan


def plans_of(
    graph: Graph, specs: Sequence[FusionSpec], cost: CostFunction
) -> dict[str, Plan | str]:
    """
    The plan over all targets, named `MIXED`, then that of each target alone, or the reason
    why it has none. Raises `UncoveredError` where there is not even the first.

    One target alone can be cheaper than the mixture: a search sees the costs of kernels as
    they are proposed, not what merging them afterwards will save.
    """
    try:
        mixed = choose(graph, propose(graph, *specs), cost=cost, merge=specs)
    except NoPlanError as error:
        raise explain_uncovered(graph, specs, cost, error) from error
    plans: dict[str, Plan | str] = {MIXED: mixed}
    if len(specs) > 1:
        plans |= {spec.name: _alone(graph, spec, cost) for spec in specs}
    return plans


def _alone(graph: Graph, spec: FusionSpec, cost: CostFunction) -> Plan | str:
    try:
        return choose(graph, propose(graph, spec), cost=cost, merge=[spec])
    except NoPlanError as error:
        return str(error)


def explain_uncovered(
    graph: Graph, specs: Sequence[FusionSpec], cost: CostFunction, error: NoPlanError
) -> UncoveredError:
    """`error` with, for the first few nodes, why each spec has nothing for them."""
    lines = [str(error)]
    for name in error.nodes[:_SHOWN]:
        index = graph.index(name)
        lines.append(f"  `{name}` ({graph.nodes[index].op}):")
        for spec in specs:
            reasons = _reasons(graph, spec, cost, index) or ["no rule proposes it"]
            lines.append(f"    target {spec.name}: {'; '.join(reasons[:_SHOWN])}")
    return UncoveredError("\n".join(lines))


def _reasons(graph: Graph, spec: FusionSpec, cost: CostFunction, index: int) -> list[str]:
    """Why what `spec` proposes for a node is infeasible, or why it proposes nothing."""
    trace = _trace()
    reasons = []
    for candidate in spec.candidates(graph, trace):
        price = cost(candidate) if candidate.sub_graph.inside >> index & 1 else None
        if isinstance(price, Infeasible):
            reasons.append(f"{candidate.label}: {price.reason}")
    refusals = (refusal.because for refusal in trace.at(index))
    return list(dict.fromkeys(reasons or refusals))
