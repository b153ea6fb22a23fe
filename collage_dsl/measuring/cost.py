"""The cost function that measures: it builds and times each distinct kernel once per machine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import BackendOf, UnknownBackend
from collage_dsl.backends.tvm import Tvm
from collage_dsl.backends.variants import IN_PLACE
from collage_dsl.cost import Cost, CostStore, Infeasible, Measurement, Variant, cheapest
from collage_dsl.graph import CandidateKernel, Extract, Graph, Toolchain, extract, tensors
from collage_dsl.graph.sizes import Sizes, size_of
from collage_dsl.measuring.key import context_of, kernel_key
from collage_dsl.measuring.task import (
    KernelTask,
    Overhead,
    OverheadTask,
    Timing,
    kernel_task,
    measure,
    native_of,
)
from collage_dsl.measuring.worker import Failed, Worker
from collage_dsl.realization.place import (
    kept_composites,
    kernel_view,
    library_of,
    makers,
)
from collage_dsl.realization.variants import unsuitable, with_variant, without_variant


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


_Key = tuple[str, tuple[str, ...], float]
"""A kernel, the contexts of its variants, and a time limit."""


class MeasuredCost:
    """
    A `CostFunction`: the seconds that a kernel takes, its launch included.

    A cost is looked up in `store` by what the kernel computes, its target, the versions of
    the libraries and the machine. If it is not there, the kernel is built and timed in another
    process. A kernel that cannot be built, crashes, or takes longer than `timeout` seconds (or
    the limit of its target) is infeasible; this is stored too. Trouble of the machine, and not of
    the kernel (no compiler, no memory), raises `MeasuringError` and is not stored. `watch` is
    called after every change of the counts.

    If a backend has several variants for a kernel, each is measured and stored by itself, and the
    kernel costs what the cheapest does.

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
        self._known: dict[_Key, tuple[Variant, ...]] = {}
        self._no_overhead: dict[tuple[str, float], Infeasible] = {}
        self._worker = Worker[KernelTask | OverheadTask, Timing | Overhead](
            measure, timeout=timeout
        )

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
            makers(candidate, self.backend_of)
        except (UnknownBackend, ModuleNotFoundError) as error:
            return Infeasible(str(error))
        offered = _offered(candidate, backend)
        if not offered:
            return Infeasible(without_variant(candidate, backend))
        key = self._key(offered, backend, found)
        if key not in self._known:
            self._known[key] = self._priced(offered, found, key)
            self._count(cheapest(self._known[key]).cost)
        return cheapest(self._known[key]).cost

    def variants(self, candidate: CandidateKernel) -> tuple[Variant, ...]:
        """The variants of a kernel whose cost was asked for; empty for other kernels."""
        backend = self.backend_of(candidate.toolchain)
        if not backend.variants:
            return ()
        found, offered = kernel_view(candidate, backend), _offered(candidate, backend)
        return self._known.get(self._key(offered, backend, found), ())

    def _key(self, offered: Sequence[CandidateKernel], backend: Backend, found: Extract) -> _Key:
        """The names of the candidates in the store, and the time limit."""
        _, *libraries = makers(offered[0], self.backend_of)
        kernel = kernel_key(offered[0], backend, found, self.sizes)
        contexts = (context_of(each.toolchain, backend, *libraries) for each in offered)
        return kernel, tuple(contexts), self._limit(offered[0].toolchain)

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
        toolchain = replace(toolchain, variants=())
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

    def _work(self, task: KernelTask | OverheadTask) -> Timing | Overhead | Failed:
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

    def _priced(
        self, offered: Sequence[CandidateKernel], found: Extract, key: _Key
    ) -> tuple[Variant, ...]:
        """The cost of each of the candidates, which are one kernel by different variants."""
        self.counts.found += 1
        self.watch(self.counts)
        if reason := self._unsupported(offered[0], found.graph):
            return tuple(Variant(each.toolchain.variant, Infeasible(reason)) for each in offered)
        kernel, contexts, limit = key
        # A kernel that was too slow for one time limit may be fast enough for another.
        names = (kernel, f"{kernel} in {limit:g} s")
        known = [self._stored(names, context) for context in contexts]
        if None in known:
            self.counts.measured += 1
        else:
            self.counts.reused += 1
        pairs = zip(offered, contexts, known, strict=True)
        every = [each or self._new(candidate, names, at) for candidate, at, each in pairs]
        return tuple(Variant(each.variant, each.cost, each.error) for each in every)

    def _stored(self, names: Sequence[str], context: str) -> Measurement | None:
        found = (self.store.find(name, context) for name in names)
        return next((each for each in found if each is not None), None)

    def _new(self, candidate: CandidateKernel, names: tuple[str, str], context: str) -> Measurement:
        """A measurement that was not in the store, and is now."""
        measured = self._measure(candidate)
        kernel, too_slow = names
        label, variant = candidate.label, candidate.toolchain.variant
        match measured:
            case Failed():
                name = too_slow if measured.timed_out else kernel
                found = Measurement(name, context, label, Infeasible(measured.reason), variant)
            case Timing(seconds, error):
                found = Measurement(kernel, context, label, seconds, variant, error)
        self.store.put(found)
        return found

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

    def _measure(self, candidate: CandidateKernel) -> Timing | Failed:
        """The seconds of a kernel, without the cost of entering the executable."""
        toolchain = candidate.toolchain
        backend, *libraries = makers(candidate, self.backend_of)
        if toolchain.variant == IN_PLACE:
            return self._in_place(candidate, backend)
        entry = self._entry(toolchain)
        can_warm = not isinstance(self.launch(toolchain, backend), Infeasible)
        task = kernel_task(
            candidate, backend, self.sizes, can_warm=can_warm, libraries=tuple(libraries)
        )
        measured = self._work(task)
        assert not isinstance(measured, Overhead)
        if isinstance(measured, Failed):
            return measured
        return replace(measured, seconds=max(measured.seconds - entry, 0.0))

    def _in_place(self, candidate: CandidateKernel, backend: Backend) -> Timing | Failed:
        """What runs no code, but makes a view of a tensor for each operand."""
        launch = self.launch(candidate.toolchain, backend)
        if isinstance(launch, Infeasible):
            return Failed(launch.reason)
        return Timing(launch * len(kernel_view(candidate, backend).arguments))

    def _count(self, cost: Cost) -> None:
        if isinstance(cost, Infeasible):
            self.counts.infeasible += 1
            reasons = self.counts.reasons
            reasons[cost.reason] = reasons.get(cost.reason, 0) + 1
        self.watch(self.counts)


def _offered(candidate: CandidateKernel, backend: Backend) -> list[CandidateKernel]:
    """The candidate for each variant that may compute it and can."""
    if not backend.variants and not candidate.toolchain.variants:
        return [candidate]
    fitting = (variant for variant, reason in unsuitable(candidate, backend) if reason is None)
    return [with_variant(candidate, variant) for variant in fitting]


def _unsized(kernel: Graph, sizes: Sizes) -> str:
    """A value with a dimension that is no number and not in `sizes`; empty if there is none."""
    for node in kernel.nodes:
        for type_ in tensors(node.type):
            shape = ("?",) if type_.shape is None else type_.shape
            if not type_.is_static and any(isinstance(size_of(d, sizes), str) for d in shape):
                return node.name
    return ""
