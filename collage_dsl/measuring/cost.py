"""The cost function that measures: it builds and times each distinct kernel once per machine."""

import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import BackendOf, UnknownBackend
from collage_dsl.backends.tvm import Tvm
from collage_dsl.backends.variants import IN_PLACE
from collage_dsl.cost import (
    Context,
    Cost,
    CostFunction,
    CostStore,
    Infeasible,
    Measurement,
    Variant,
    cheapest,
)
from collage_dsl.cost.records import Records
from collage_dsl.graph import CandidateKernel, Extract, Graph, Toolchain, extract, tensors
from collage_dsl.graph.sizes import UNKNOWN, Sizes, size_of
from collage_dsl.measuring.footprint import displaced, footprint
from collage_dsl.measuring.found import FoundValues, is_found
from collage_dsl.measuring.key import context_of, kernel_key
from collage_dsl.measuring.process import Failed
from collage_dsl.measuring.recorded import Recorded
from collage_dsl.measuring.task import (
    KernelTask,
    Overhead,
    OverheadTask,
    Timing,
    kernel_task,
    measure,
    native_of,
)
from collage_dsl.measuring.worker import Job, Workers
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


LEAST_LAUNCH = 0.67
"""What views cost, as a part of the measured time of a launch. No kernel costs less."""

_QUICK = 0.75
"""A kernel that runs code costs this part of a launch at the least."""

_WORKERS = 4
"""The most processes that build kernels. Each holds libraries and the weights of a kernel."""

_Key = tuple[str, tuple[str, ...], float]
"""A kernel, the contexts of its variants, and a time limit."""

_Task = KernelTask | OverheadTask
_Answer = Timing | Overhead | Failed


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A kernel whose cost is asked for: the same candidate by each variant, and its key."""

    key: _Key
    offered: Sequence[CandidateKernel]
    backend: Backend
    kernel: Graph


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
    kernel costs what the cheapest does. One of them is the schedule that `records` have for it.

    Kernels that are asked for together, with `ahead`, are built side by side on the cores of this
    machine. While one is timed, nothing is built.

    Symbolic dimensions are timed at the numbers in `sizes`. A kernel with a dimension that is not
    in `sizes` is infeasible. Where the size of an operand is found only as the model runs, the
    kernel is timed on what the model gives for random inputs, or for those `given`.
    """

    def __init__(
        self,
        backend_of: BackendOf,
        store: CostStore,
        *,
        records: Records | None = None,
        timeout: float = 60,
        sizes: Sizes | None = None,
        given: Mapping[str, Any] | None = None,
        watch: Callable[[Counts], None] = lambda counts: None,
    ) -> None:
        self.backend_of = backend_of
        self.sizes = sizes or {}
        self.found = FoundValues(given)
        self.store = store
        self.recorded = Recorded(records, backend_of)
        self.watch = watch
        self.counts = Counts()
        self.timeout = timeout
        self._known: dict[_Key, tuple[Variant, ...]] = {}
        self._footprints: dict[int, tuple[Graph, int]] = {}
        self._contexts: dict[str, Context] = {}
        self._keys: dict[object, str] = {}
        self._no_overhead: dict[tuple[str, float], Infeasible] = {}
        cores = len(os.sched_getaffinity(0))
        self._workers = Workers[_Task, Timing | Overhead](measure, count=min(cores, _WORKERS))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._workers.stop()

    def __call__(self, candidate: CandidateKernel) -> Cost:
        wanted = self._wanted(candidate)
        if isinstance(wanted, Infeasible):
            return wanted
        if wanted.key not in self._known:
            self._price([wanted])
        return cheapest(self._known[wanted.key]).cost

    def known(self, candidate: CandidateKernel) -> Cost:
        """The cost that is in the store; infeasible where there is none. Nothing is measured."""
        wanted = self._wanted(candidate)
        if isinstance(wanted, Infeasible):
            return wanted
        if reason := unsupported(wanted.offered[0], self.backend_of, wanted.kernel):
            return Infeasible(reason)
        stored = self._stored(wanted)
        found = [each for each in stored if each is not None]
        if len(found) < len(stored):
            return Infeasible("its cost has not been measured")
        return cheapest(tuple(map(_variant_of, found))).cost

    def ahead(self, candidates: Iterable[CandidateKernel]) -> None:
        """Find out the costs of kernels that will be asked for."""
        wanted = (self._wanted(candidate) for candidate in candidates)
        by_key = {each.key: each for each in wanted if not isinstance(each, Infeasible)}
        self._price([each for key, each in by_key.items() if key not in self._known])

    def _wanted(self, candidate: CandidateKernel) -> _Wanted | Infeasible:
        """What is to be looked up and measured of a candidate, or why it is not."""
        backend = self.backend_of(candidate.toolchain)
        found = kernel_view(candidate, backend)
        if name := _unsized(candidate.graph, found.arguments, self.sizes):
            return Infeasible(f"`{name}` has dimensions that `sizes` have no numbers for")
        values = self._values(candidate, found)
        if isinstance(values, str):
            return Infeasible(values)
        try:
            makers(candidate, self.backend_of)
        except (UnknownBackend, ModuleNotFoundError) as error:
            return Infeasible(str(error))
        offered = _offered(self.recorded(candidate), backend)
        if not offered:
            return Infeasible(without_variant(candidate, backend))
        return _Wanted(self._key(offered, backend, found), offered, backend, found.graph)

    def _values(self, candidate: CandidateKernel, found: Extract) -> Mapping[int, Any] | str:
        """The values of operands whose sizes are found as the model runs, or why there are none."""
        graph = candidate.graph
        if not any(is_found(graph, index) for index in found.arguments):
            return {}
        return self.found.of(graph, found.arguments)

    def variants(self, candidate: CandidateKernel) -> tuple[Variant, ...]:
        """The variants of a kernel whose cost was asked for; empty for other kernels."""
        backend = self.backend_of(candidate.toolchain)
        if not backend.variants:
            return ()
        found = kernel_view(candidate, backend)
        offered = _offered(self.recorded(candidate), backend)
        return self._known.get(self._key(offered, backend, found), ())

    def _key(self, offered: Sequence[CandidateKernel], backend: Backend, found: Extract) -> _Key:
        """The names of the candidates in the store, and the time limit."""
        _, *libraries = makers(offered[0], self.backend_of)
        values = self._values(offered[0], found)
        kernel = kernel_key(offered[0], backend, found, self.sizes, values)
        others = self._others(offered[0])
        contexts = (
            self._context(each.toolchain, backend, *libraries, others=others) for each in offered
        )
        return kernel, tuple(contexts), self._limit(offered[0].toolchain)

    def _context(self, toolchain: Toolchain, *backends: Backend, others: int | None = None) -> str:
        """The key of a context."""
        made_of = toolchain, backends, others
        if made_of not in self._keys:
            context = context_of(toolchain, *backends, others=others)
            self._contexts[context.key] = context
            self._keys[made_of] = context.key
        return self._keys[made_of]

    def _keep(self, measurement: Measurement) -> None:
        """Store a measurement, and what its context means."""
        self.store.describe(self._contexts[measurement.context])
        self.store.put(measurement)

    def launch(self, toolchain: Toolchain, backend: Backend) -> Cost:
        """The cost of a kernel of `toolchain` besides its work, if it can be measured."""
        return self._overhead("launch", toolchain, backend)

    def _entry(self, toolchain: Toolchain) -> float:
        """What a run of any executable costs besides its kernels: the same for all backends."""
        entry = self._overhead("entry", native_of(toolchain), Tvm())
        if isinstance(entry, Infeasible):
            raise MeasuringError(f"cannot measure kernels here: {entry.reason}")
        return entry

    def _others(self, candidate: CandidateKernel) -> int | None:
        """The bytes that the model reads between two runs of a kernel; None if it runs rarely."""
        if candidate.toolchain.measure.runs == "rarely":
            return None
        graph = candidate.graph
        if id(graph) not in self._footprints:
            self._footprints[id(graph)] = graph, displaced(footprint(graph, self.sizes))
        return self._footprints[id(graph)][1]

    def _overhead(self, part: str, toolchain: Toolchain, backend: Backend) -> Cost:
        toolchain = toolchain.by()
        context = self._context(toolchain, backend)
        tried = (context, self._limit(toolchain))
        known = self._no_overhead.get(tried, self.store.get(f"overhead.{part}", context))
        if known is not None:
            return known
        measured = self._work_alone(OverheadTask(toolchain, backend))
        if isinstance(measured, Failed):
            self._no_overhead[tried] = Infeasible(measured.reason)
            return self._no_overhead[tried]
        assert isinstance(measured, Overhead)
        parts = {"launch": measured.launch, "entry": measured.entry}
        for name, seconds in parts.items():
            self._keep(Measurement(f"overhead.{name}", context, toolchain.name, seconds))
        return parts[part]

    def _work_alone(self, task: _Task) -> _Answer:
        """The answer of a worker, which has no other task then."""
        answers: list[_Answer] = []

        def job() -> Job[_Task, Any]:
            answers.append((yield from self._work(task)))

        self._workers.run([job()])
        return answers[0]

    def _work(self, task: _Task) -> Generator[tuple[_Task, float], _Answer, _Answer]:
        """The answer of a worker. Raises `MeasuringError` if the machine is the cause."""
        limit = self._limit(task.toolchain)
        if isinstance(task, OverheadTask):  # many kernels, to which no limit of a target applies
            limit = max(limit, self.timeout)
        answer = yield task, limit
        if isinstance(answer, Failed) and answer.passing:
            raise MeasuringError(f"cannot measure kernels: {answer.reason}")
        return answer

    def _limit(self, toolchain: Toolchain) -> float:
        """The seconds after which a kernel of `toolchain` is refused."""
        said = toolchain.measure.timeout
        return self.timeout if said is None else said

    def _price(self, wanted: Sequence[_Wanted]) -> None:
        """Find out the costs of kernels that are not known yet."""
        self._workers.run([self._job(each) for each in wanted if self._measures(each)])

    def _measures(self, wanted: _Wanted) -> bool:
        """Whether a kernel must be measured. If so, the overheads that this needs are known now."""
        self.counts.found += 1
        self.watch(self.counts)
        if reason := unsupported(wanted.offered[0], self.backend_of, wanted.kernel):
            refused = Infeasible(reason)
            known = tuple(Variant(each.toolchain.variant, refused) for each in wanted.offered)
            self._learned(wanted, known)
            return False
        stored = self._stored(wanted)
        found = [each for each in stored if each is not None]
        if len(found) == len(stored):
            self.counts.reused += 1
            self._learned(wanted, map(_variant_of, found))
            return False
        for each in wanted.offered:
            self._entry(each.toolchain)
            self.launch(each.toolchain, wanted.backend)
        return True

    def _job(self, wanted: _Wanted) -> Job[_Task, Any]:
        """Measure the variants of a kernel that are not in the store."""
        self.counts.measured += 1
        self.watch(self.counts)
        every = []
        stored = self._stored(wanted)
        for candidate, context, known in zip(wanted.offered, wanted.key[1], stored, strict=True):
            every.append(known or (yield from self._new(candidate, wanted, context)))
        self._learned(wanted, map(_variant_of, every))

    def _learned(self, wanted: _Wanted, variants: Iterable[Variant]) -> None:
        self._known[wanted.key] = tuple(variants)
        self._count(cheapest(self._known[wanted.key]).cost)

    def _stored(self, wanted: _Wanted) -> list[Measurement | None]:
        """What the store has for each variant of a kernel."""
        names = _names(wanted)
        return [self._first(names, context) for context in wanted.key[1]]

    def _first(self, names: Sequence[str], context: str) -> Measurement | None:
        found = (self.store.find(name, context) for name in names)
        return next((each for each in found if each is not None), None)

    def _new(
        self, candidate: CandidateKernel, wanted: _Wanted, context: str
    ) -> Generator[tuple[_Task, float], _Answer, Measurement]:
        """A measurement that was not in the store, and is now."""
        measured = yield from self._measure(candidate)
        kernel, too_slow = _names(wanted)
        label, variant = candidate.label, candidate.toolchain.variant
        match measured:
            case Failed():
                name = too_slow if measured.timed_out else kernel
                found = Measurement(name, context, label, Infeasible(measured.reason), variant)
            case Timing(seconds, error):
                found = Measurement(kernel, context, label, seconds, variant, error)
        self._keep(found)
        return found

    def _measure(
        self, candidate: CandidateKernel
    ) -> Generator[tuple[_Task, float], _Answer, Timing | Failed]:
        """The seconds of a kernel, without the cost of entering the executable."""
        toolchain = candidate.toolchain
        backend, *libraries = makers(candidate, self.backend_of)
        if toolchain.variant == IN_PLACE:
            return self._in_place(candidate, backend)
        entry = self._entry(toolchain)
        launch = self.launch(toolchain, backend)
        least = 0.0 if isinstance(launch, Infeasible) else launch * _QUICK
        given = self._values(candidate, kernel_view(candidate, backend))
        assert not isinstance(given, str)
        task = kernel_task(
            candidate,
            backend,
            self.sizes,
            can_warm=not isinstance(launch, Infeasible),
            libraries=tuple(libraries),
            given=given,
            others=self._others(candidate),
        )
        measured = yield from self._work(task)
        assert not isinstance(measured, Overhead)
        if isinstance(measured, Failed):
            return measured
        return replace(measured, seconds=max(measured.seconds - entry, least))

    def time(
        self,
        candidates: Sequence[CandidateKernel],
        hear: Callable[[CandidateKernel, Timing | Failed], None],
    ) -> None:
        """
        Time candidates of one variant each, without a look into the store. `hear` is told of each
        as soon as it is known.
        """
        for each in candidates:
            self._entry(each.toolchain)
            self.launch(each.toolchain, self.backend_of(each.toolchain))

        def job(candidate: CandidateKernel) -> Job[_Task, Any]:
            hear(candidate, (yield from self._measure(candidate)))

        self._workers.run([job(each) for each in candidates])

    def _in_place(self, candidate: CandidateKernel, backend: Backend) -> Timing | Failed:
        """
        What runs no code. Its operands are views of its result, in place of tensors that they would
        have anyway. So it costs less than a launch, and as much as the lower bound says.
        """
        launch = self.launch(candidate.toolchain, backend)
        if isinstance(launch, Infeasible):
            return Failed(launch.reason)
        return Timing(launch * LEAST_LAUNCH)

    def _count(self, cost: Cost) -> None:
        if isinstance(cost, Infeasible):
            self.counts.infeasible += 1
            reasons = self.counts.reasons
            reasons[cost.reason] = reasons.get(cost.reason, 0) + 1
        self.watch(self.counts)


def unsupported(candidate: CandidateKernel, backend_of: BackendOf, kernel: Graph) -> str | None:
    """
    Why a backend, or a library that a composite is for, cannot run a candidate, of which `kernel`
    is the graph.
    """
    backend, *libraries = makers(candidate, backend_of)
    if reason := backend.supports(kernel):
        return reason
    by_name = {library.name: library for library in libraries}
    for each in kept_composites(candidate, backend) if libraries else ():
        part = extract(candidate.graph, each.inside, each.constants).graph
        if reason := by_name[library_of(each.label)].supports(part):
            return f"{each.label}: {reason}"
    return None


def supported(cost: CostFunction, backend_of: BackendOf) -> CostFunction:
    """`cost`, but infeasible for what no backend can run."""

    def checked(candidate: CandidateKernel) -> Cost:
        kernel = kernel_view(candidate, backend_of(candidate.toolchain)).graph
        reason = unsupported(candidate, backend_of, kernel)
        return Infeasible(reason) if reason else cost(candidate)

    return checked


def _names(wanted: _Wanted) -> tuple[str, str]:
    """
    The names of a kernel in the store. The second is that of one that was too slow for its time
    limit: it may be fast enough for another.
    """
    kernel, _, limit = wanted.key
    return kernel, f"{kernel} in {limit:g} s"


def _variant_of(measured: Measurement) -> Variant:
    return Variant(measured.variant, measured.cost, measured.error)


def _offered(candidate: CandidateKernel, backend: Backend) -> list[CandidateKernel]:
    """The candidate for each variant that may compute it and can."""
    if not backend.variants and not candidate.toolchain.variants:
        return [candidate]
    fitting = (variant for variant, reason in unsuitable(candidate, backend) if reason is None)
    return [with_variant(candidate, variant) for variant in fitting]


def _unsized(graph: Graph, nodes: Iterable[int], sizes: Sizes) -> str:
    """A node with a symbolic dimension that is not in `sizes`; empty if there is none."""
    for node in (graph.nodes[index] for index in nodes):
        for type_ in tensors(node.type):
            dims = (size_of(dim, sizes) for dim in type_.shape or () if dim != UNKNOWN)
            if any(isinstance(dim, str) for dim in dims):
                return node.name
    return ""
