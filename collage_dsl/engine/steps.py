"""The second and third of the four steps, propose and choose, which need no TVM."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice

from collage_dsl.argument_types import with_checked_types
from collage_dsl.backends.base import Backend
from collage_dsl.cost import CostFunction, CostSources, Infeasible, always_known
from collage_dsl.engine import predicates
from collage_dsl.engine.costs import Pricing, with_provenance
from collage_dsl.engine.devices import DefaultDevice
from collage_dsl.engine.nearest import nearest
from collage_dsl.engine.stopped import warn_of
from collage_dsl.graph import CandidateKernel, Graph, OpSet
from collage_dsl.graph.onnx_node import OnnxNode
from collage_dsl.language.write.printer import patterns_of
from collage_dsl.memory import seldom_collected, uncollected
from collage_dsl.rules import FusionSpec, Limits, Trace
from collage_dsl.rules.placement import Placed
from collage_dsl.rules.predicate import Lookup
from collage_dsl.rules.spec import Refusal
from collage_dsl.search import (
    NO_HINTS,
    NO_REPORTER,
    Ahead,
    Hints,
    LowerBound,
    NoPlanError,
    Plan,
    Regions,
    Reporter,
    Solve,
    Strategy,
    auto,
    distinct,
    find_strategy,
    search,
)
from collage_dsl.search.distinct import place_of

MIXED = "mixed"
"""The name of the plan over all targets in reports. The next best ones are `mixed 2`, `mixed 3`."""

MOST_PLANS = 16
"""The most plans over all targets that can be raced."""

REFINED = "refined"
"""The name of the plan that a refinement has found."""

_SHOWN = 3
"""How many uncovered nodes are shown at most, and how many reasons for each."""

_RUNS_ONNX = "onnxruntime"
"""The shipped target that runs nodes of ONNX as they are, and its compiler."""


class UncoveredError(Exception):
    """Operator calls that no target has a kernel for, and why each target has none."""


@with_checked_types()
def propose(
    graph: Graph,
    *specs: FusionSpec,
    allow_extern: bool = False,
    backends: Sequence[Backend] = (),
) -> tuple[CandidateKernel, ...]:
    """
    The candidates of `specs`, spec by spec, each in graph order; they may overlap. Those that
    a `pin` or `forbid` of any of the specs rules out are left out, and so are those of a target
    that may not run what is planned for their device: only that planned target may, and one
    that refines it. What is planned for no device is on that of the first spec.

    Raises `PredicateError` if a spec asks host code, unless `allow_extern` is set. `backends` come
    before the installed ones.
    """
    lookup = predicates.lookup(allow_extern=allow_extern, backends=backends)
    return proposed(graph, specs, specs, lookup, _misplaced(graph, specs))


def _misplaced(
    graph: Graph, specs: Sequence[FusionSpec], default: DefaultDevice | None = None
) -> Refusal | None:
    """Why specs may not run nodes for their device; that of the first is the default one."""
    if not specs:
        return None
    default = default or DefaultDevice(specs[0].target.kind)
    if not graph.planned:
        return default.refusals({spec.name: spec.target.kind for spec in specs})
    from collage_dsl.engine.specs import Aimed, misplaced  # need TVM, as a model with devices did

    return misplaced(graph, [Aimed(spec, (spec,)) for spec in specs], default)


def proposed(
    graph: Graph,
    specs: Sequence[FusionSpec],
    among: Sequence[FusionSpec],
    lookup: Lookup,
    refusal: Refusal | None = None,
) -> tuple[CandidateKernel, ...]:
    """
    The candidates of `specs`, as in `propose`, with the placements of all specs in `among` and the
    code of predicates from `lookup`. Candidates that `refusal` refuses are left out. Warns with
    `StoppedWarning` of rules that stopped at a bound.
    """
    refused = refusals(graph, among, refusal)
    found: list[CandidateKernel] = []
    for spec in specs:
        trace = Trace(lookup=lookup)
        with uncollected():
            found += spec.candidates(graph, trace, refused)
        warn_of(spec.name, trace.stops)
    return tuple(found)


def refusals(graph: Graph, specs: Sequence[FusionSpec], refusal: Refusal | None = None) -> Refusal:
    """Why targets may not run nodes: for the placements of `specs`, or for what `refusal` says."""
    placed = Placed(graph, {spec.name: spec.placements for spec in specs})

    def refused(target: str, inside: OpSet) -> str:
        why = placed.refusal(target, inside)
        return why if why or refusal is None else refusal(target, inside)

    return refused


@with_checked_types("cost", "merge", "strategy", "lower_bound", "ahead", "reporter")
@seldom_collected()
def choose(
    graph: Graph,
    found: Iterable[CandidateKernel],
    *,
    cost: CostSources,
    merge: Sequence[FusionSpec] = (),
    strategy: Strategy = "auto",
    lower_bound: LowerBound | None = None,
    predicts: bool = False,
    ahead: Ahead | None = None,
    reporter: Reporter = NO_REPORTER,
) -> Plan:
    """
    A cheapest plan of the candidates `found`, by `strategy` (docs/search.md). Raises
    `NoPlanError`. `cost` gives seconds or `Infeasible`. A candidate that costs less than its
    `lower_bound` may be overlooked. A search with a `lower_bound` that also `predicts` costs from
    those that are known asks for fewer; then a candidate may be overlooked too if it costs less
    than `search.FORESEEN` of what is predicted.
    Several sources of costs are asked in turn; raises `CostError` if none knows a cost. Each
    kernel of the plan says which source gave its cost.
    `ahead` hears of several candidates before their costs are asked for; `reporter` is told what
    the search explores and prices.

    For the specs in `merge` that say `after max_coalesce()`, touching kernels may be one, within
    the limits of the spec; see `search.Regions`. Every `pin` and `forbid` still holds, because a
    merged kernel has only the calls of its parts.
    """
    solve = solver(strategy)
    found = tuple(found)
    if not all(isinstance(each, CandidateKernel) for each in found):
        raise TypeError("`found` of `choose` must have candidates, which `propose` gives")
    if any(each.graph is not graph for each in found):
        raise ValueError("a candidate is of another graph: choose for the graph of `propose`")
    with ExitStack() as stack:
        pricing = Pricing(stack)
        costs = pricing.sources(cost)
        ahead = ahead or (costs.ahead if costs.looks_ahead else None)
        hints = Hints(lower_bound, predicts, costs.have, ahead)
        space = regions(graph, found, always_known(costs), merge, hints, reporter)
        plan = with_provenance(space.plan(solve=solve), costs)
        return pricing.with_variants(plan)


def regions(
    graph: Graph,
    found: Iterable[CandidateKernel],
    cost: CostFunction,
    merge: Sequence[FusionSpec],
    hints: Hints = NO_HINTS,
    reporter: Reporter = NO_REPORTER,
) -> Regions:
    """The kernels `found`, and regions of them for the specs in `merge` that ask for regions."""
    may_merge = {each.name: partial(_may_merge, each.limits) for each in merge if each.coalesce}
    return Regions(graph, found, cost, may_merge, hints, reporter)


def _may_merge(limits: Limits, kernel: CandidateKernel) -> bool:
    return not limits.refusal(kernel.graph, kernel.sub_graph)


def solver(strategy: Strategy) -> Solve:
    """A search by `strategy`. Raises `UnknownStrategyError`, and TypeError for what is none."""
    if strategy == "auto":
        return auto
    if isinstance(strategy, str):
        find_strategy(strategy)  # Say now that there is none, and not after long measuring.
    elif not callable(strategy):
        given = type(strategy).__name__
        raise TypeError(f"a strategy is a function or a name, not of type {given}")
    return partial(search, strategy=strategy)


def is_of_all_targets(name: str) -> bool:
    """Whether a plan of this name is over all targets, and not that of a single one."""
    return name == REFINED or mixed_rank(name) is not None


def mixed_rank(name: str) -> int | None:
    """1 for the best plan over all targets, 2 for the next best, and so on; else None."""
    return next((rank for rank in range(1, MOST_PLANS + 1) if name == mixed_name(rank)), None)


def mixed_name(rank: int) -> str:
    """`mixed` for the best plan over all targets, then `mixed 2`, and so on."""
    return MIXED if rank == 1 else f"{MIXED} {rank}"


@dataclass(frozen=True, slots=True)
class Searched:
    """
    The plan over all targets, named `MIXED`, then the next best ones, then that of each target
    alone, or the reason why it has none; and the kernels and regions that they were chosen from.
    """

    plans: dict[str, Plan | str]
    regions: Regions


@seldom_collected()
def searched(
    graph: Graph,
    specs: Sequence[FusionSpec],
    cost: CostFunction,
    lookup: Lookup,
    strategy: Strategy = "auto",
    hints: Hints = NO_HINTS,
    reporter: Reporter = NO_REPORTER,
    default: DefaultDevice | None = None,
    count: int = 1,
) -> Searched:
    """
    The plans for `specs`; see `choose`. Raises `UncoveredError` where there is not even one over
    all targets. The `default` device is that of the first target where nothing else is said. After
    the best plan come the next best `distinct` ones, until there are `count`; none of them is that
    of a single target.
    """
    solve = solver(strategy)
    misplaced = _misplaced(graph, specs, default)
    found = proposed(graph, specs, specs, lookup, misplaced)
    space = regions(graph, found, always_known(cost), specs, hints, reporter)
    try:
        mixed = space.plan(solve=solve)
    except NoPlanError as error:
        raise explain_uncovered(graph, specs, cost, lookup, error, misplaced) from error
    alone: dict[str, Plan | str] = {}
    if len(specs) > 1:
        refused = refusals(graph, specs, misplaced)
        alone = {spec.name: _alone(graph, spec, refused, space, solve) for spec in specs}
    others = [plan for plan in alone.values() if isinstance(plan, Plan)]
    if any(plan.cost < mixed.cost for plan in others):  # Their kernels were not all priced before.
        mixed = space.plan(solve=solve)
    next_best = _next_best(space, mixed, others, solve, count - 1)
    return Searched({MIXED: mixed, **next_best, **alone}, space)


def _next_best(
    space: Regions, plan: Plan, alone: Sequence[Plan], solve: Solve, count: int
) -> dict[str, Plan]:
    """At most `count` plans after `plan`, by name. Those of single targets are left out."""
    known = {frozenset(map(place_of, each.candidates)) for each in alone}
    every = distinct(space.priced(), plan, solve=solve) if count > 0 else iter(())
    others = (each for each in every if frozenset(map(place_of, each.candidates)) not in known)
    return {mixed_name(rank): each for rank, each in enumerate(islice(others, count), 2)}


def _alone(
    graph: Graph, spec: FusionSpec, refused: Refusal, space: Regions, solve: Solve
) -> Plan | str:
    try:
        return space.plan([spec.name], solve)
    except NoPlanError as error:
        whys = (refused(spec.name, graph.set_of(name)) for name in error.nodes)
        shown = list(dict.fromkeys(why for why in whys if why))[:_SHOWN]
        return "; ".join([str(error), *shown])


def explain_uncovered(
    graph: Graph,
    specs: Sequence[FusionSpec],
    cost: CostFunction,
    lookup: Lookup,
    error: NoPlanError,
    refusal: Refusal | None = None,
) -> UncoveredError:
    """`error` with the reasons why each spec has no kernel for the first few nodes."""
    lines = [str(error)]
    refused = refusals(graph, specs, refusal)
    for name in error.nodes[:_SHOWN]:
        index = graph.index(name)
        came = ", ".join(str(each) for each in graph.origins(1 << index) if each.name)
        origin = f", from {came}" if came else ""
        lines.append(f"  `{name}` ({graph.nodes[index].op}{origin}):")
        for spec in specs:
            trace = Trace(lookup=lookup, collects=True)
            reasons = _reasons(graph, spec, cost, refused, trace, index)
            reasons = reasons or ["no rule proposes it"]
            lines.append(f"    target {spec.name}: {'; '.join(reasons[:_SHOWN])}")
    is_kept = any(isinstance(graph.nodes[graph.index(n)].value, OnnxNode) for n in error.nodes)
    if is_kept and not any(spec.target.compiler == _RUNS_ONNX for spec in specs):
        lines.append(f"help: add the target `{_RUNS_ONNX}`, which runs such nodes of ONNX")
    return UncoveredError("\n".join(lines))


def _reasons(
    graph: Graph, spec: FusionSpec, cost: CostFunction, refused: Refusal, trace: Trace, index: int
) -> list[str]:
    """Why all candidates of `spec` for a node are infeasible, or why it proposes none."""
    reasons = []
    for candidate in spec.candidates(graph, trace, refused):
        price = cost(candidate) if candidate.sub_graph.inside >> index & 1 else None
        if isinstance(price, Infeasible):
            reasons.append(f"{candidate.label}: {price.reason}")
    if not reasons:
        near = nearest(patterns_of(spec.rule), graph, index, trace.lookup)
        reasons = [*[near] * bool(near), *(refusal.because for refusal in trace.at(index))]
    return list(dict.fromkeys(reasons))
