"""Measured costs: each distinct kernel is built and timed once per machine."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

import tvm

from collage_dsl.backends.base import Backend
from collage_dsl.backends.tvm import Tvm, machine_target
from collage_dsl.cost import Cost, CostStore, Infeasible, Measurement
from collage_dsl.graph import (
    CandidateKernel,
    Composite,
    Extract,
    SubGraph,
    Toolchain,
    fingerprint,
    without_weights,
)
from collage_dsl.realization.measure import KernelTask, Overhead, OverheadTask, measure
from collage_dsl.realization.module import BackendOf, kernel_extract
from collage_dsl.realization.timing import cpu_name
from collage_dsl.realization.worker import Failed, Worker

_METHOD = 1
"""Counts the ways of measuring; costs measured in another way are not reused."""


class MeasuringError(Exception):
    """Not even a small kernel of TVM itself can be measured."""


@dataclass(slots=True)
class Counts:
    """
    How many distinct kernels were asked for, and where their costs came from. Why some are
    infeasible, and how many for each reason.
    """

    found: int = 0
    measured: int = 0
    reused: int = 0
    infeasible: int = 0
    reasons: dict[str, int] = field(default_factory=dict)


class MeasuredCost:
    """
    A `CostFunction`: the seconds that a kernel takes, its launch included.

    A cost is looked up in `store` by what the kernel computes, its target, the versions of
    the libraries and the machine; where there is none, the kernel is built and timed in
    another process. One that cannot be built, crashes or takes longer than `timeout` seconds
    is infeasible. `watch` is told of every change of the counts.
    """

    def __init__(
        self,
        backend_of: BackendOf,
        store: CostStore,
        *,
        timeout: float = 60,
        watch: Callable[[Counts], None] = lambda counts: None,
    ) -> None:
        self.backend_of = backend_of
        self.store = store
        self.watch = watch
        self.counts = Counts()
        self._known: dict[tuple[str, str], Cost] = {}
        self._worker = Worker[KernelTask | OverheadTask, float | Overhead](measure, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.stop()

    def __call__(self, candidate: CandidateKernel) -> Cost:
        backend = self.backend_of(candidate.toolchain)
        found = kernel_extract(candidate, backend)
        key = (_kernel_key(candidate, found), context_of(candidate.toolchain, backend))
        if key not in self._known:
            self._known[key] = self._cost(candidate, backend, found, key)
            self._count(self._known[key])
        return self._known[key]

    def launch(self, toolchain: Toolchain, backend: Backend) -> Cost:
        """What a kernel of `toolchain` costs besides its work, if that can be measured."""
        return self._overhead("launch", toolchain, backend)

    def _entry(self, toolchain: Toolchain) -> float:
        """What a run of any executable costs besides its kernels: the same for all backends."""
        entry = self._overhead("entry", toolchain, Tvm())
        if isinstance(entry, Infeasible):
            raise MeasuringError(f"cannot measure kernels here: {entry.reason}")
        return entry

    def _overhead(self, part: str, toolchain: Toolchain, backend: Backend) -> Cost:
        context = context_of(toolchain, backend)
        known = self.store.get(f"overhead.{part}", context)
        if known is not None:
            return known
        parts = self._measured_overhead(toolchain, backend)
        for name, cost in parts.items():
            self.store.put(Measurement(f"overhead.{name}", context, toolchain.name, cost))
        return parts[part]

    def _measured_overhead(self, toolchain: Toolchain, backend: Backend) -> dict[str, Cost]:
        measured = self._worker.run(OverheadTask(toolchain, backend))
        if isinstance(measured, Failed):
            return dict.fromkeys(("launch", "entry"), Infeasible(measured.reason))
        assert isinstance(measured, Overhead)
        return {"launch": measured.launch, "entry": measured.entry}

    def _cost(
        self, candidate: CandidateKernel, backend: Backend, found: Extract, key: tuple[str, str]
    ) -> Cost:
        self.counts.found += 1
        self.watch(self.counts)
        unsupported = backend.supports(found.graph)
        if unsupported:
            return Infeasible(unsupported)
        stored = self.store.get(*key)
        if stored is not None:
            self.counts.reused += 1
            return stored
        cost = self._measure(candidate, backend, found)
        self.counts.measured += 1
        self.store.put(Measurement(*key, candidate.label, cost))
        return cost

    def _measure(self, candidate: CandidateKernel, backend: Backend, found: Extract) -> Cost:
        toolchain = candidate.toolchain
        entry = self._entry(toolchain)
        can_warm = not isinstance(self.launch(toolchain, backend), Infeasible)
        seconds = self._worker.run(
            KernelTask(
                without_weights(found.graph),
                _inner_sub_graph(candidate, found),
                toolchain,
                backend,
                can_warm,
            )
        )
        if isinstance(seconds, Failed):
            return Infeasible(seconds.reason)
        assert isinstance(seconds, float)
        return max(seconds - entry, 0.0)

    def _count(self, cost: Cost) -> None:
        if isinstance(cost, Infeasible):
            self.counts.infeasible += 1
            reasons = self.counts.reasons
            reasons[cost.reason] = reasons.get(cost.reason, 0) + 1
        self.watch(self.counts)


def _inner_sub_graph(candidate: CandidateKernel, found: Extract) -> SubGraph:
    """The candidate's sub-graph as one of the kernel's own graph, which it covers."""
    kernel = found.graph
    names = candidate.graph.names
    composites = tuple(
        Composite(c.label, kernel.set_of(*names(c.inside)), kernel.set_of(*names(c.constants)))
        for c in candidate.sub_graph.composites
    )
    return replace(SubGraph(kernel.computed, kernel.constants), composites=composites)


def _kernel_key(candidate: CandidateKernel, found: Extract) -> str:
    """What the kernel computes, and which composites a library is told of."""
    composites = [
        (c.label, sorted(found.graph.index(name) for name in candidate.graph.names(c.inside)))
        for c in candidate.sub_graph.composites
    ]
    structure = fingerprint(found.graph)
    return structure if not composites else _hash([structure, composites])


def context_of(toolchain: Toolchain, backend: Backend) -> str:
    """Everything but the kernel that its cost depends on, as a hash."""
    tvm_version = tvm.__version__
    return _hash(
        [
            toolchain.kind,
            toolchain.compiler,
            sorted(toolchain.options.items()),
            machine_target(toolchain),
            type(backend).__qualname__,
            backend.version,
            tvm_version,
            cpu_name(),
            _METHOD,
        ]
    )


def _hash(content: object) -> str:
    text = json.dumps(content, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()
