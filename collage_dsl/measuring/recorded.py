"""Find the records of tuning that were made for kernels."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import tvm

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import NATIVE, BackendOf
from collage_dsl.backends.schedule.tuned import place_of, target_text
from collage_dsl.backends.tvm_target import kernel_target
from collage_dsl.cost.records import Records
from collage_dsl.graph import CandidateKernel, Record, Toolchain, members, tensors
from collage_dsl.graph.tuning import TUNED, Place
from collage_dsl.realization.errors import BuildError
from collage_dsl.realization.fused import fused_function
from collage_dsl.realization.kernel import kept_composites


class BestRecords:
    """
    Gives each candidate the fastest record for its function, target and version of TVM, if there is
    one. The target is the one for which the candidate is `aimed`.
    """

    def __init__(
        self,
        records: Records | None,
        backend_of: BackendOf,
        aimed: Callable[[CandidateKernel], CandidateKernel] = lambda candidate: candidate,
    ) -> None:
        self.records = records
        self.backend_of = backend_of
        self.aimed = aimed
        self._labels = cache(self._labels_for)
        self._known: dict[CandidateKernel, CandidateKernel] = {}

    def __call__(self, candidate: CandidateKernel) -> CandidateKernel:
        if self.records is None or candidate.toolchain.record:
            return candidate
        if candidate not in self._known:
            self._known[candidate] = self._found(self.records, candidate)
        return self._known[candidate]

    def _found(self, records: Records, candidate: CandidateKernel) -> CandidateKernel:
        backend = self.backend_of(candidate.toolchain)
        if untunable(candidate, backend):
            return candidate
        aimed = self.aimed(candidate)
        if label_of(candidate) not in self._labels(text_of(aimed.toolchain)):
            return candidate
        try:
            best = records.best(place_of_kernel(aimed, backend))
        except BuildError:
            return candidate
        return with_record(candidate, best.record) if best else candidate

    def _labels_for(self, target: str) -> frozenset[str]:
        assert self.records is not None
        return self.records.labels(target, tvm.__version__)


def with_record(candidate: CandidateKernel, record: Record) -> CandidateKernel:
    """`candidate` for the same toolchain with a record."""
    return replace(candidate, toolchain=replace(candidate.toolchain, record=record))


def untunable(candidate: CandidateKernel, backend: Backend) -> str:
    """Why a kernel cannot be tuned, in one sentence; empty if it can."""
    graph, toolchain = candidate.graph, candidate.toolchain
    if backend.name != NATIVE or toolchain.kind != "llvm":
        return f"only kernels that TVM makes for llvm are tuned, not those of `{toolchain.name}`"
    if TUNED not in (toolchain.variants or backend.variants):
        return f"`{toolchain.name}` does not allow the variant {TUNED}"
    if graph.planned:
        return f"{TUNED} is for models on one device"
    if kept_composites(candidate, backend):
        return f"{TUNED} computes no kernels that a library is linked to"
    inside = candidate.sub_graph.inside
    nodes = (graph.nodes[index] for index in members(graph.input(inside) | inside))
    if any(not type_.is_static for node in nodes for type_ in tensors(node.type)):
        return f"{TUNED} is for dimensions that are numbers"
    return ""


def place_of_kernel(candidate: CandidateKernel, backend: Backend) -> Place:
    """What the records of a kernel are for. Raises `BuildError`."""
    return place_of(fused_function(candidate, backend), kernel_target(candidate.toolchain))


def text_of(toolchain: Toolchain) -> str:
    """What the code for a toolchain depends on, as in a `Place`."""
    return target_text(kernel_target(toolchain))


def label_of(candidate: CandidateKernel) -> str:
    """The operators of a kernel, in graph order."""
    return "+".join(candidate.graph.operators(candidate.sub_graph.inside))
