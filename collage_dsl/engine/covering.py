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
    What each of `specs` can take alone. A call is covered if it is in a candidate that the backend
    of the target supports, and that no `pin` or `forbid` of any of the specs rules out. Where there
    is no such backend here, only the rules decide. `backends` come before the installed ones.
    """
    placed = refusals(graph, specs)
    code, backend_of = lookup(allow_extern=allow_extern, backends=backends), installed(backends)
    found = []
    for spec in specs:
        trace = Trace(lookup=code, collects=True)
        candidates = spec.candidates(graph, trace, placed)
        covered, refused = _covered(candidates, backend_of)
        unproposed = _Unproposed(graph, spec, trace)
        left = {
            index: placed(spec.name, 1 << index) or refused.get(index) or unproposed.reason(index)
            for index in members(graph.calls & ~covered)
        }
        found.append(Coverage(spec.name, covered, left))
    return found


class _Unproposed:
    """Why `spec` proposes no candidate for calls; `trace` has what its rules refused."""

    def __init__(self, graph: Graph, spec: FusionSpec, trace: Trace) -> None:
        self.graph = graph
        self.spec = spec
        self.trace = trace
        self._nearest: dict[tuple[str, str], str] = {}
        """By the operator and the reason of its rules: calls that are alike are explained once."""

    def reason(self, index: int) -> str:
        """Why there is none for one call."""
        node = self.graph.nodes[index]
        # Of patterns for other operators there are many, and they say nothing of this one.
        other = f"`{node.name}` is a call of"
        reasons = (refusal.because for refusal in self.trace.at(index))
        reason = next((reason for reason in reasons if other not in reason), "")
        alike = node.op, reason.replace(node.name, "")
        if alike not in self._nearest:
            patterns = patterns_of(self.spec.rule)
            self._nearest[alike] = nearest(patterns, self.graph, index, self.trace.lookup)
        return self._nearest[alike] or reason or "no rule proposes it"


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
