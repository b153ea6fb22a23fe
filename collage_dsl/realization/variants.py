"""Which variants of a backend can compute a kernel in its model, and the choice of one."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from collage_dsl.backends.base import Backend
from collage_dsl.backends.variants import IN_PLACE
from collage_dsl.graph import CandidateKernel, Extract, Form, Graph, members
from collage_dsl.graph.tuning import TUNED
from collage_dsl.graph.variants import DIRECT
from collage_dsl.realization.errors import BuildError
from collage_dsl.realization.kernel import kept_composites, kernel_view

_VIEWS = ("reshape", "squeeze", "expand_dims", "flatten")
"""Operators whose results TVM makes as views of their operands."""


def pinned(candidate: CandidateKernel, backend: Backend) -> CandidateKernel:
    """
    `candidate` with one variant: the first that may compute it and can, where several may. Raises
    `BuildError` if none can.
    """
    if not backend.variants and not candidate.toolchain.variants:
        return candidate
    for variant, reason in unsuitable(candidate, backend):
        if reason is None:
            return with_variant(candidate, variant)
    raise BuildError(without_variant(candidate, backend))


def with_variant(candidate: CandidateKernel, variant: str) -> CandidateKernel:
    """`candidate` for the toolchain that uses only `variant`, which may be that of its record."""
    fixed = candidate.toolchain.by(variant)
    if variant == TUNED:
        fixed = replace(fixed, record=candidate.toolchain.record)
    return replace(candidate, toolchain=fixed)


def unsuitable(candidate: CandidateKernel, backend: Backend) -> Iterator[tuple[str, str | None]]:
    """
    Each variant of the backend that the toolchain allows, in the order of the toolchain, and why
    it cannot compute the candidate, or is not worth trying; None if it is.
    """
    view = None
    for variant in candidate.toolchain.variants or backend.variants:
        if variant == DIRECT and variant in backend.variants:
            yield variant, None
        elif variant in backend.variants:
            view = view or kernel_view(candidate, backend)
            yield variant, _unsuitable(candidate, backend, view, variant)
        else:
            yield variant, f"the backend {backend.name} has no variant {variant}"


def _unsuitable(
    candidate: CandidateKernel, backend: Backend, view: Extract, variant: str
) -> str | None:
    graph = candidate.graph
    if graph.planned:
        return f"{variant} is for models on one device"
    if kept_composites(candidate, backend):
        return f"{variant} computes no kernels that a library is linked to"
    if variant == TUNED and not candidate.toolchain.record:
        return f"{TUNED} is for kernels that were tuned, and there is no record of this one"
    if variant == IN_PLACE and (reason := _not_written(graph, view.arguments)):
        return reason
    parameters = (i for i, node in enumerate(view.graph.nodes) if node.form is Form.INPUT)
    given = zip(parameters, view.arguments, strict=True)
    weights = {parameter for parameter, node in given if graph.constants >> node & 1}
    reason = backend.unsuitable(variant, view.graph, weights)
    if reason is None and not candidate.toolchain.variants:
        return backend.unpromising(variant, view.graph, candidate.toolchain)
    return reason


def _not_written(graph: Graph, operands: Sequence[int]) -> str | None:
    """Why other kernels cannot write `operands` to memory that a concatenation gives them."""
    for index in operands:
        node = graph.nodes[index]
        if node.form is not Form.CALL or node.op in _VIEWS:
            return f"{IN_PLACE} needs operands that kernels compute, `{node.name}` is none"
        if index in graph.outputs:
            return f"{IN_PLACE} is not for outputs of the model, `{node.name}` is one"
        others = [i for i in members(graph.users_of[index]) if _joins(graph, i)]
        if len(others) > 1:
            return f"{IN_PLACE} is for the only concatenation of a value, `{node.name}` has others"
    return None


def _joins(graph: Graph, index: int) -> bool:
    """Whether a node is the tuple of a concatenation, or takes part in one."""
    node = graph.nodes[index]
    users = members(graph.users_of[index]) if node.form is Form.TUPLE else ()
    return node.op == "concat" or any(graph.nodes[i].op == "concat" for i in users)


def without_variant(candidate: CandidateKernel, backend: Backend) -> str:
    """Why no variant that the toolchain allows can compute `candidate`."""
    return "; ".join(reason for _, reason in unsuitable(candidate, backend) if reason)
