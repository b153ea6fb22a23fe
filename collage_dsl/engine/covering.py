"""
Which operator calls of a model the rules of each target can take, and why not the others; and how
much of its time.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import BackendOf, UnknownBackend, installed
from collage_dsl.cost import NOWHERE, CostFunction, CostStore, Source, Sources, only
from collage_dsl.engine.compile import backends_of
from collage_dsl.engine.costs import Pricing
from collage_dsl.engine.nearest import nearest
from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.steps import choose, propose, refusals
from collage_dsl.graph import CandidateKernel, Graph, OpSet, first, members, union_of
from collage_dsl.language.write.printer import patterns_of
from collage_dsl.measuring.cost import MeasuredCost
from collage_dsl.measuring.kernels import unsupported
from collage_dsl.realization.draws import sizes_of
from collage_dsl.realization.place import kernel_view
from collage_dsl.rules import FusionSpec, Trace
from collage_dsl.search import NoPlanError
from collage_dsl.targets.attach import TargetError


@dataclass(frozen=True, slots=True)
class Coverage:
    """The calls that a target can take, and for each other one why not."""

    target: str
    covered: OpSet
    left: dict[int, str]


@dataclass(frozen=True, slots=True)
class KnownTime:
    """
    The cost of the cheapest plan of kernels whose costs are known, and how many these are. Of each
    target, the cost of those of these kernels whose calls it can all take.
    """

    seconds: float
    kernels: int
    of_target: dict[str, float]


class UnknownTimeError(Exception):
    """The time of a model is not known. Says why."""


def known_time(
    graph: Graph,
    specs: Sequence[FusionSpec],
    alone: Sequence[Coverage],
    cost: CostFunction,
    *,
    allow_extern: bool = False,
) -> KnownTime:
    """
    The time of `graph` by `cost`, which is infeasible where it is not known, and how much of it
    each of `specs` can take, of which `alone` says what they cover. Raises `UnknownTimeError`.
    """
    covered = union_of(each.covered for each in alone)
    if left := (graph.calls & ~covered).bit_count():
        raise UnknownTimeError(f"no target can run {left} of the operator calls")
    takes = {each.target: each.covered for each in alone}
    found = propose(graph, *specs, allow_extern=allow_extern)
    found = tuple(each for each in found if not each.calls & ~takes[each.target])
    try:
        plan = choose(graph, found, cost=cost, merge=specs)
    except NoPlanError as error:
        name = error.nodes[0] if error.nodes else ""
        where = f", such as one that takes `{name}`" if name else ""
        raise UnknownTimeError(f"the costs of some kernels are not known{where}") from error
    times = {
        each.target: sum(k.cost for k in plan.kernels if not k.candidate.calls & ~each.covered)
        for each in alone
    }
    return KnownTime(plan.cost, len(plan.kernels), times)


def priced_time(
    graph: Graph,
    specs: Sequence[FusionSpec],
    alone: Sequence[Coverage],
    costs: Sequence[str],
    store: Path,
    *,
    allow_extern: bool = False,
) -> KnownTime:
    """As `known_time`, by these sources of costs, which measure nothing."""
    with ExitStack() as stack:
        cost = Pricing(stack, store=store, sizes=sizes_of(graph)).sources(only(costs))
        return known_time(graph, specs, alone, cost, allow_extern=allow_extern)


def measured_time(
    graph: Graph,
    specs: Sequence[FusionSpec],
    alone: Sequence[Coverage],
    store: Path,
    *,
    allow_extern: bool = False,
) -> KnownTime:
    """As `known_time`, by what is in the cost store, which is not changed."""
    try:
        backend_of = backends_of(specs)
    except (TargetError, UnknownBackend, ModuleNotFoundError) as error:
        raise UnknownTimeError(str(error)) from error
    with (
        CostStore(store) as costs,
        MeasuredCost(backend_of, costs, sizes=sizes_of(graph)) as measured,
    ):
        cost = Sources([Source("recorded", measured.recorded), NOWHERE])
        return known_time(graph, specs, alone, cost, allow_extern=allow_extern)


def coverage(
    graph: Graph,
    specs: Sequence[FusionSpec],
    backends: Sequence[Backend] = (),
    *,
    allow_extern: bool = False,
) -> list[Coverage]:
    """
    What each of `specs` can take alone. A call is covered if it is
    in a candidate that the backend of the target supports, and that no `pin` or `forbid` of any of
    the specs rules out. Where there is no such backend here, only the rules decide. `backends` come
    before the installed ones.
    """
    placed = refusals(graph, specs)
    code, backend_of = lookup(allow_extern=allow_extern, backends=backends), installed(backends)
    found = []
    for spec in specs:
        trace = Trace(lookup=code, collects=True)
        candidates = spec.candidates(graph, trace, placed)
        covered, refused = _covered(candidates, backend_of)
        left = {}
        near: dict[tuple[str, str], str] = {}
        for index in members(graph.calls & ~covered):
            if because := placed(spec.name, 1 << index):
                left[index] = because
                continue
            reasons = [refused[index]] if index in refused else []
            reasons += [refusal.because for refusal in trace.at(index)]
            node = graph.nodes[index]
            # Of patterns for other operators there are many, and they say nothing of this one.
            other = f"`{node.name}` is a call of"
            reason = next((reason for reason in reasons if other not in reason), "")
            if index not in refused:
                alike = node.op, reason.replace(node.name, "")
                if alike not in near:
                    near[alike] = nearest(patterns_of(spec.rule), graph, index, code)
                reason = near[alike] or reason
            left[index] = reason or "no rule proposes it"
        found.append(Coverage(spec.name, covered, left))
    return found


def _covered(
    candidates: Sequence[CandidateKernel], backend_of: BackendOf
) -> tuple[OpSet, dict[int, str]]:
    """The calls in candidates that can be run, and why some others cannot."""
    covered: OpSet = 0
    refused: dict[int, str] = {}
    for each in sorted(candidates, key=lambda candidate: len(candidate.nodes)):
        calls = each.calls
        if not calls & ~covered:
            continue
        reason = _unsupported(each, backend_of)
        if reason is None:
            covered |= calls
        elif calls.bit_count() == 1:
            refused.setdefault(first(calls), reason)
    return covered, refused


def _unsupported(candidate: CandidateKernel, backend_of: BackendOf) -> str | None:
    try:
        backend = backend_of(candidate.toolchain)
    except (UnknownBackend, ModuleNotFoundError):
        return None
    return unsupported(candidate, backend_of, kernel_view(candidate, backend).graph)
