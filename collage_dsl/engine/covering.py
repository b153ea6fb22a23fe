"""Which operator calls of a model the rules of each target can take, and why not the others."""

from collections.abc import Sequence
from dataclasses import dataclass

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import NO_BACKEND, BackendOf, installed
from collage_dsl.engine.nearest import nearest
from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.steps import refusals
from collage_dsl.graph import CandidateKernel, Graph, OpSet, first, members
from collage_dsl.language.write.printer import patterns_of
from collage_dsl.measuring.kernels import unsupported
from collage_dsl.realization.kernel import kernel_view
from collage_dsl.rules import FusionSpec, Trace


@dataclass(frozen=True, slots=True)
class Coverage:
    """The calls that a target can take, and for each other one why not."""

    target: str
    covered: OpSet
    left: dict[int, str]


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
    except NO_BACKEND:
        return None
    return unsupported(candidate, backend_of, kernel_view(candidate, backend).graph)
