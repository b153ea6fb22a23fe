"""The cost function that measures: it builds and times each distinct kernel once per machine."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import BackendOf, UnknownBackend
from collage_dsl.backends.tvm import Tvm
from collage_dsl.cost import Cost, CostStore, Infeasible, Measurement
from collage_dsl.graph import CandidateKernel, Extract, Graph, Toolchain, extract, tensors
from collage_dsl.graph.sizes import Sizes, size_of
from collage_dsl.measuring.key import context_of, kernel_key
from collage_dsl.measuring.task import (
    KernelTask,
    Overhead,
    OverheadTask,
    kernel_task,
    measure,
    native_of,
)
from collage_dsl.measuring.worker import Failed, Worker
from collage_dsl.realization.place import kept_composites, kernel_view, library_of, makers


class MeasuringError(Exception):
    """Kernels cannot be measured on this machine as it is now."""


@dataclass(slots=True)
class Counts:
    """
    How many distinct kernels were asked for, and where their costs came from. For each reason why
    kernels are infeasible, how many are.
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
    the libraries and the machine. If it is not there, the kernel is built and timed in another
    process. A kernel that cannot be built, crashes, or takes longer than `timeout` seconds (or
    the limit of its target) is infeasible; this is stored too. Trouble of the machine, and not of
    the kernel (no compiler, no memory), raises `MeasuringError` and is not stored. `watch` is
    called after every change of the counts.

    Symbolic dimensions are timed at the numbers in `sizes`. A kernel with a dimension that is not
    in `sizes` is infeasible.
    """

    def __init__(
        self,
        backend_of: BackendOf,
        store: CostStore,
        *,
        timeout: float = 60,
        sizes: Sizes | None = None,
        watch: Callable[[Counts], None] = lambda counts: None,
    ) -> None:
        self.backend_of = backend_of
        self.sizes = sizes or {}
        self.store = store
        self.watch = watch
        self.counts = Counts()
        self.timeout = timeout
        self._known: dict[tuple[str, str, float], Cost] = {}
        self._no_overhead: dict[tuple[str, float], Infeasible] = {}
        self._worker = Worker[KernelTask | OverheadTask, float | Overhead](measure, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.stop()

    def __call__(self, candidate: CandidateKernel) -> Cost:
        backend = self.backend_of(candidate.toolchain)
        found = kernel_view(candidate, backend)
        if name := _unsized(found.graph, self.sizes):
            return Infeasible(f"`{name}` has dimensions that `sizes` have no numbers for")
        try:
            _, *libraries = makers(candidate, self.backend_of)
        except (UnknownBackend, ModuleNotFoundError) as error:
            return Infeasible(str(error))
        kernel = kernel_key(candidate, backend, found, self.sizes)
        key = (kernel, context_of(candidate.toolchain, backend, *libraries))
        known = (*key, self._limit(candidate.toolchain))
        if known not in self._known:
            self._known[known] = self._cost(candidate, found, key)
            self._count(self._known[known])
        return self._known[known]

    def launch(self, toolchain: Toolchain, backend: Backend) -> Cost:
        """The cost of a kernel of `toolchain` besides its work, if it can be measured."""
        return self._overhead("launch", toolchain, backend)

    def _entry(self, toolchain: Toolchain) -> float:
        """What a run of any executable costs besides its kernels: the same for all backends."""
        entry = self._overhead("entry", native_of(toolchain), Tvm())
        if isinstance(entry, Infeasible):
            raise MeasuringError(f"cannot measure kernels here: {entry.reason}")
        return entry

    def _overhead(self, part: str, toolchain: Toolchain, backend: Backend) -> Cost:
        context = context_of(toolchain, backend)
        tried = (context, self._limit(toolchain))
        known = self._no_overhead.get(tried, self.store.get(f"overhead.{part}", context))
        if known is not None:
            return known
        measured = self._work(OverheadTask(toolchain, backend))
        if isinstance(measured, Failed):
            self._no_overhead[tried] = Infeasible(measured.reason)
            return self._no_overhead[tried]
        assert isinstance(measured, Overhead)
        parts = {"launch": measured.launch, "entry": measured.entry}
        for name, seconds in parts.items():
            self.store.put(Measurement(f"overhead.{name}", context, toolchain.name, seconds))
        return parts[part]

    def _work(self, task: KernelTask | OverheadTask) -> float | Overhead | Failed:
        """The answer of the worker. Raises `MeasuringError` if the machine is the cause."""
        limit = self._limit(task.toolchain)
        if isinstance(task, OverheadTask):  # many kernels, to which no limit of a target applies
            limit = max(limit, self.timeout)
        answer = self._worker.run(task, timeout=limit)
        if isinstance(answer, Failed) and answer.passing:
            raise MeasuringError(f"cannot measure kernels: {answer.reason}")
        return answer

    def _limit(self, toolchain: Toolchain) -> float:
        """The seconds after which a kernel of `toolchain` is refused."""
        said = toolchain.measure.timeout
        return self.timeout if said is None else said

    def _cost(self, candidate: CandidateKernel, found: Extract, key: tuple[str, str]) -> Cost:
        self.counts.found += 1
        self.watch(self.counts)
        unsupported = self._unsupported(candidate, found.graph)
        if unsupported:
            return Infeasible(unsupported)
        kernel, context = key
        # A kernel that was too slow for one time limit may be fast enough for another.
        too_slow = f"{kernel} in {self._limit(candidate.toolchain):g} s"
        stored = self.store.get(kernel, context)
        if stored is None:
            stored = self.store.get(too_slow, context)
        if stored is not None:
            self.counts.reused += 1
            return stored
        measured = self._measure(candidate)
        self.counts.measured += 1
        name = too_slow if isinstance(measured, Failed) and measured.timed_out else kernel
        cost = Infeasible(measured.reason) if isinstance(measured, Failed) else measured
        self.store.put(Measurement(name, context, candidate.label, cost))
        return cost

    def _unsupported(self, candidate: CandidateKernel, kernel: Graph) -> str | None:
        """Why a backend, or a library that a composite is for, cannot run a kernel."""
        backend, *libraries = makers(candidate, self.backend_of)
        if reason := backend.supports(kernel):
            return reason
        by_name = {library.name: library for library in libraries}
        for each in kept_composites(candidate, backend) if libraries else ():
            part = extract(candidate.graph, each.inside, each.constants).graph
            if reason := by_name[library_of(each.label)].supports(part):
                return f"{each.label}: {reason}"
        return None

    def _measure(self, candidate: CandidateKernel) -> float | Failed:
        """The seconds of a kernel, without the cost of entering the executable."""
        toolchain = candidate.toolchain
        backend, *libraries = makers(candidate, self.backend_of)
        entry = self._entry(toolchain)
        can_warm = not isinstance(self.launch(toolchain, backend), Infeasible)
        task = kernel_task(
            candidate, backend, self.sizes, can_warm=can_warm, libraries=tuple(libraries)
        )
        seconds = self._work(task)
        assert not isinstance(seconds, Overhead)
        return seconds if isinstance(seconds, Failed) else max(seconds - entry, 0.0)

    def _count(self, cost: Cost) -> None:
        if isinstance(cost, Infeasible):
            self.counts.infeasible += 1
            reasons = self.counts.reasons
            reasons[cost.reason] = reasons.get(cost.reason, 0) + 1
        self.watch(self.counts)


def _unsized(kernel: Graph, sizes: Sizes) -> str:
    """A value with a dimension that is no number and not in `sizes`; empty if there is none."""
    for node in kernel.nodes:
        for type_ in tensors(node.type):
            shape = ("?",) if type_.shape is None else type_.shape
            if not type_.is_static and any(isinstance(size_of(d, sizes), str) for d in shape):
                return node.name
    return ""
