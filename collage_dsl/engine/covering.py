"""Which operator calls of a model the rules of each target can take, and why not the others."""

from collections.abc import Sequence
from dataclasses import dataclass

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import BackendOf, UnknownBackend, installed
from collage_dsl.engine.predicates import lookup
from collage_dsl.graph import CandidateKernel, Graph, OpSet, first, members
from collage_dsl.measuring.cost import unsupported
from collage_dsl.realization.place import kernel_view
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
    in a candidate that the backend of the target supports. Where there is no such backend here,
    only the rules decide. `backends` come before the installed ones.
    """
    code, backend_of = lookup(allow_extern=allow_extern, backends=backends), installed(backends)
    found = []
    for spec in specs:
        trace = Trace(lookup=code, collects=True)
        candidates = spec.candidates(graph, trace)
        covered, refused = _covered(candidates, backend_of)
        left = {}
        for index in members(graph.calls & ~covered):
            reasons = [refused[index]] if index in refused else []
            reasons += [refusal.because for refusal in trace.at(index)]
            # Of patterns for other operators there are many, and they say nothing of this one.
            other = f"`{graph.nodes[index].name}` is a call of"
            telling = (reason for reason in reasons if other not in reason)
            left[index] = next(telling, "no rule proposes it")
        found.append(Coverage(spec.name, covered, left))
    return found


def _covered(
    candidates: Sequence[CandidateKernel], backend_of: BackendOf
) -> tuple[OpSet, dict[int, str]]:
    """The calls in candidates that can be run, and why some others cannot."""
    covered: OpSet = 0
    refused: dict[int, str] = {}
    for each in sorted(candidates, key=lambda candidate: len(candidate.nodes)):
        calls = each.sub_graph.inside & each.graph.calls
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
