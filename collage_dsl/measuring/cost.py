"""The cost function that measures: it builds and times each distinct kernel once per machine."""

import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, nan
from typing import Any, Self

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import BackendOf, UnknownBackend
from collage_dsl.backends.tvm import Tvm
from collage_dsl.backends.variants import IN_PLACE
from collage_dsl.cost import (
    Cost,
    CostFunction,
    CostStore,
    Infeasible,
    Measurement,
    Refusal,
    Variant,
)
from collage_dsl.cost.expiry import expiry, is_expired
from collage_dsl.cost.records import Records
from collage_dsl.cost.spread import Spread
from collage_dsl.graph import CandidateKernel, Extract, Graph, Toolchain, extract, tensors
from collage_dsl.graph.sizes import UNKNOWN, Sizes, size_of
from collage_dsl.graph.tuning import TUNED
from collage_dsl.measuring.executors import Fleet
from collage_dsl.measuring.footprint import displaced, footprint
from collage_dsl.measuring.found import FoundValues, is_found, is_shape
from collage_dsl.measuring.kept import Kept
from collage_dsl.measuring.key import kernel_key
from collage_dsl.measuring.machine import this_machine
from collage_dsl.measuring.overheads import LEAST_LAUNCH, MeasuringError, Overheads
from collage_dsl.measuring.process import Failed
from collage_dsl.measuring.recorded import BestRecords
from collage_dsl.measuring.task import (
    InTurn,
    InTurnTask,
    KernelTask,
    Overhead,
    OverheadTask,
    Timing,
    kernel_task,
)
from collage_dsl.measuring.ways import (
    Key,
    Wanted,
    Way,
    Ways,
    by_variant,
    cheapest_of,
    close_variants,
    close_ways,
    is_unsure,
    joined,
    made_equal,
    margin_of,
    may_be_equal,
    runs,
    variant_of,
)
from collage_dsl.measuring.work import measure
from collage_dsl.measuring.worker import Job, Workers
from collage_dsl.realization.place import (
    kept_composites,
    kernel_view,
    library_of,
    makers,
)
from collage_dsl.realization.variants import unsuitable, with_variant, without_variant


@dataclass(slots=True)
class Counts:
    """
    How many distinct kernels were asked for, and where their costs came from. For each reason why
    kernels are infeasible, and each kind of reason, how many are. The first of those whose reason
    may pass is measured again from the time `retried` on; it is empty if there is none. `queued`
    are the seconds for which kernels waited for a device of another machine, and `lost` is how many
    devices were lost and replaced.
    """

    found: int = 0
    measured: int = 0
    reused: int = 0
    infeasible: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    retried: str = ""
    queued: float = 0.0
    lost: int = 0


_WORKERS = 4
"""The most processes that build kernels. Each holds libraries and the weights of a kernel."""

_OVERHEADS = 60.0
"""The least limit in seconds for the overheads of TVM, without which nothing is measured."""

_MIB = 1 << 20
_Task = KernelTask | OverheadTask | InTurnTask
_Answer = Timing | Overhead | InTurn | Failed


class MeasuredCost:
    """
    A `CostFunction`: the seconds that a kernel takes, its launch included.

    A cost is looked up in `store` by what the kernel computes, its target, the versions of
    the libraries and the machine. If it is not there, the kernel is built and timed in another
    process. A kernel that cannot be built, crashes, gives a wrong result, takes longer than
    `timeout` seconds (or the limit of its target) or more than `memory` bytes (half of those of the
    machine) is infeasible. This is stored too, with the kind of the reason. A time-out, a crash and
    exhausted memory may pass: after some days (see `expiry`) the kernel is measured again. Trouble
    of the machine, and not of the kernel (no compiler, a process that is killed again and again),
    raises `MeasuringError` and is not stored. `watch` is called after every change of the counts.

    If a backend has several variants for a kernel, each is measured and stored by itself, and the
    kernel costs what the cheapest does. Variants that are about as cheap are timed again, in turn;
    of those that cost the same, within the noise margin, the first counts. One of the variants is
    the best schedule that `records` have for the kernel.

    Kernels that are asked for together, with `ahead`, are built side by side on the cores of this
    machine. While one is timed, nothing is built.

    Symbolic dimensions are timed at the numbers in `sizes`. A kernel with a dimension that is not
    in `sizes` is infeasible. Where the size of an operand is found only as the model runs, the
    kernel is timed on what the model gives for random inputs, or for those `given`.

    With `fleet`, kernels are built and timed where that says, and costs are those of its machine.
    """

    def __init__(
        self,
        backend_of: BackendOf,
        store: CostStore,
        *,
        records: Records | None = None,
        timeout: float = 60,
        memory: int | None = None,
        sizes: Sizes | None = None,
        given: Mapping[str, Any] | None = None,
        watch: Callable[[Counts], None] = lambda counts: None,
        fleet: Fleet | None = None,
    ) -> None:
        if not 0 < timeout < inf:
            raise ValueError(f"the time limit of a kernel is a number of seconds, not {timeout}")
        self.backend_of = backend_of
        self.sizes = sizes or {}
        self.found = FoundValues(given)
        self.store = store
        self.with_best_record = BestRecords(records, backend_of, self.aimed)
        self.watch = watch
        self.counts = Counts()
        self.timeout = timeout
        self.fleet = fleet
        self.machine = fleet.machine if fleet else this_machine()
        self.memory = self.machine.memory if memory is None else memory
        self._given_memory = memory
        self._known: dict[Key, tuple[Measurement, ...]] = {}
        self._equal: dict[Key, float] = {}
        self._footprints: dict[int, tuple[Graph, int]] = {}
        self._kept = Kept(store, self.machine)
        self.overheads = Overheads(self._kept, self._limit, self._work_alone)
        self._measured_at: dict[CandidateKernel, str] = {}
        cores = len(os.sched_getaffinity(0))
        self._workers = Workers[_Task, Timing | Overhead | InTurn](
            measure, count=min(cores, _WORKERS), memory=self.memory
        )

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
        self._measured_at[candidate] = self._date(wanted)
        return self._cost(wanted)

    def _cost(self, wanted: Wanted) -> Cost:
        """
        The cost of a kernel that is known: its own, or that of all that are equal to it. It may
        have been timed since, so this is not less than its own.
        """
        cost = self._chosen(wanted).cost
        return (
            cost if isinstance(cost, Infeasible) else max(cost, self._equal.get(wanted.key, cost))
        )

    def recorded(self, candidate: CandidateKernel) -> Cost:
        """The cost that is in the store; NaN where there is none. Nothing is measured."""
        wanted = self._wanted(candidate)
        if isinstance(wanted, Infeasible):
            return wanted
        if reason := unsupported(wanted.offered[0], self.backend_of, wanted.kernel):
            return Infeasible(reason)
        if wanted.key not in self._known:
            if not self._is_recorded(wanted, or_all_but=TUNED):
                return nan
            self.counts.found += 1
        self._measured_at[candidate] = self._date(wanted)
        return self._cost(wanted)

    def _is_recorded(self, wanted: Wanted, *, or_all_but: str = "") -> bool:
        """
        Whether the store has the cost of a kernel by each variant, or by all but one, which is
        learned then.
        """
        stored = self._stored(wanted)
        found = [each for each in stored if each is not None]
        offered = zip(wanted.offered, stored, strict=True)
        missing = {by.toolchain.variants for by, known in offered if known is None}
        if not found or not missing <= {(or_all_but,)}:
            return False
        self.counts.reused += 1
        self._learned(wanted, found)
        return True

    def _date(self, wanted: Wanted) -> str:
        return max(each.measured_at for each in self._known[wanted.key])

    def measured_at(self, candidate: CandidateKernel) -> str:
        """When a cost that was asked for was measured, in UTC; empty where it was not measured."""
        return self._measured_at.get(candidate, "")

    def settle(self, groups: Iterable[Ways], *, measures: bool = True) -> bool:
        """
        Let the ways of a group, to compute the same nodes, cost the same where they do so within
        the noise margin: as much as the dearest of those, which breaks no lower bound. Says whether
        a cost has changed. A cost that was raised for another plan stays so, or two plans might
        take turns for ever.

        If this `measures`, kernels of ways that may cost the same are timed in turn first, if they
        were not yet. If that changes a cost, all kernels cost what was measured again: the next
        search is then the first one of a later run, which finds every cost that it asks for in the
        store.
        """
        groups = list(groups)
        unsure = joined(filter(is_unsure, map(self._close, groups))) if measures else []
        if self._are_changed_in_turn(unsure):
            self._equal.clear()
            return True
        every = [wanted for group in groups for way in self._ways(group) for wanted, _ in way]
        before = list(map(self._cost, every))
        for group in groups:  # A kernel may be in several groups, where a model repeats itself.
            for key, cost in made_equal(self._ways(group)):
                self._equal[key] = max(cost, self._equal.get(key, cost))
        return before != list(map(self._cost, every))

    def _are_changed_in_turn(self, groups: Sequence[Way]) -> bool:
        """Time the kernels of each group in turn; whether any costs something else now."""
        every = [wanted for parts in groups for wanted, _ in parts]
        before = [self._chosen(wanted) for wanted in every]
        for wanted in every:
            self._know_overheads(wanted)
        self._run([self._in_turn(parts) for parts in groups])
        pairs = zip(before, map(self._chosen, every), strict=True)
        return any((old.variant, old.cost) != (new.variant, new.cost) for old, new in pairs)

    def _close(self, group: Ways) -> Way:
        """The kernels of ways that may cost the least, by each variant that may be the cheapest."""
        parts = {part[0].key: part for way in close_ways(self._ways(group)) for part in way}
        return tuple(
            (wanted, each)
            for wanted, chosen in parts.values()
            for each in close_variants(self._known[wanted.key], chosen)
        )

    def _ways(self, group: Ways) -> list[Way]:
        """Those of which all kernels were measured and can run, by their chosen variants."""
        ways = []
        for way in group:
            wanted = [w for w in map(self._wanted, way) if isinstance(w, Wanted)]
            parts = [(w, self._chosen(w)) for w in wanted if w.key in self._known]
            can_run = (not isinstance(measured.cost, Infeasible) for _, measured in parts)
            if len(parts) == len(way) and all(can_run):
                ways.append(tuple(parts))
        return ways

    def _chosen(self, wanted: Wanted) -> Measurement:
        return cheapest_of(self._known[wanted.key], margin_of(wanted.offered[0]))

    def _in_turn(self, parts: Way) -> Job[_Task, Any]:
        """Time kernels again, in turn, and keep what they take if all of them can run."""
        new = yield from self._timed_in_turn(parts)
        for (wanted, old), measured in zip(parts, new, strict=True):
            known = self._known[wanted.key]  # What is in the store too, if it was timed twice now.
            self._known[wanted.key] = tuple(
                measured if each.variant == old.variant else each for each in known
            )

    def _timed_in_turn(
        self, parts: Way
    ) -> Generator[tuple[_Task, float], _Answer, list[Measurement]]:
        """New measurements of kernels; the known ones where any kernel fails now."""
        candidates = [by_variant(wanted, measured) for wanted, measured in parts]
        known = [measured for _, measured in parts]
        tasks = tuple(map(self._task, candidates))
        limit = sum(self._limit(each.toolchain) for each in candidates)
        answer = yield from self._work(InTurnTask(tasks), limit)
        if not isinstance(answer, InTurn):
            return known
        new = []
        for candidate, old, timing in zip(candidates, known, answer.timings, strict=True):
            timing = self._own(candidate, timing)
            found = replace(old, cost=timing.seconds, spread=timing.spread)
            new.append(self._kept.keep(found))
        return new

    def ahead(self, candidates: Iterable[CandidateKernel]) -> None:
        """Find out the costs of kernels that will be asked for."""
        wanted = (self._wanted(candidate) for candidate in candidates)
        by_key = {each.key: each for each in wanted if not isinstance(each, Infeasible)}
        self._price([each for key, each in by_key.items() if key not in self._known])

    def _wanted(self, candidate: CandidateKernel) -> Wanted | Infeasible:
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
        offered = _offered(self.with_best_record(candidate), backend)
        if not offered:
            return Infeasible(without_variant(candidate, backend))
        return Wanted(self._key(offered, backend, found), offered, backend, found.graph)

    def _values(self, candidate: CandidateKernel, found: Extract) -> Mapping[int, Any] | str:
        """
        The values of operands whose sizes are found as the model runs, or why there are none; and
        those of shapes, if they are known.
        """
        graph, arguments = candidate.graph, found.arguments
        if any(is_found(graph, index) for index in arguments):
            return self.found.of(graph, arguments)
        if not any(is_shape(graph, index) for index in arguments):
            return {}
        known = self.found.of(graph, arguments)
        return {} if isinstance(known, str) else known

    def variants(self, candidate: CandidateKernel) -> tuple[Variant, ...]:
        """The variants of a kernel whose cost was asked for; empty for other kernels."""
        wanted = self._wanted(candidate)
        if isinstance(wanted, Infeasible) or not wanted.backend.variants:
            return ()
        return tuple(map(variant_of, self._known.get(wanted.key, ())))

    def _key(self, offered: Sequence[CandidateKernel], backend: Backend, found: Extract) -> Key:
        """The names of the candidates in the store, and the time limit."""
        _, *libraries = makers(offered[0], self.backend_of)
        values = self._values(offered[0], found)
        kernel = kernel_key(offered[0], backend, found, self.sizes, values)
        others = self._others(offered[0])
        contexts = (
            self._kept.context(each.toolchain, backend, *libraries, others=others)
            for each in offered
        )
        return kernel, tuple(contexts), self._limit(offered[0].toolchain)

    def launch(self, toolchain: Toolchain, backend: Backend) -> Cost:
        """The cost of a kernel of `toolchain` besides its work, if it can be measured."""
        return self.overheads.launch(toolchain, backend)

    def _others(self, candidate: CandidateKernel) -> int | None:
        """The bytes that the model reads between two runs of a kernel; None if it runs rarely."""
        if candidate.toolchain.measure.runs == "rarely":
            return None
        graph = candidate.graph
        if id(graph) not in self._footprints:
            used = footprint(graph, self.sizes)
            self._footprints[id(graph)] = graph, displaced(used, self.machine.cache)
        return self._footprints[id(graph)][1]

    def _work_alone(self, task: OverheadTask) -> Overhead | Failed:
        """The answer of a worker, which has no other task then."""
        answers: list[Any] = []

        limit = max(self._limit(task.toolchain), self.timeout)  # It has many kernels.
        if isinstance(task.backend, Tvm):
            limit = max(limit, _OVERHEADS)

        def job() -> Job[_Task, Any]:
            answers.append((yield from self._work(task, limit)))

        self._run([job()])
        return answers[0]

    def _run(self, jobs: Iterable[Job[_Task, Any]]) -> None:
        """Run the tasks of `jobs`, in processes here or in the fleet."""
        if self.fleet is None:
            self._workers.run(jobs)
            return
        try:
            self.fleet.run(jobs, self._given_memory)
        finally:
            self.counts.queued, self.counts.lost = self.fleet.queued, self.fleet.lost

    def _work(self, task: _Task, limit: float) -> Generator[tuple[_Task, float], _Answer, _Answer]:
        """
        The answer of a worker within `limit` seconds. Raises `MeasuringError` if the machine is the
        cause that there is none.
        """
        answer = yield task, limit
        if isinstance(answer, Failed) and answer.passing:
            raise MeasuringError(f"cannot measure kernels: {answer.reason}")
        return answer

    def _limit(self, toolchain: Toolchain) -> float:
        """The seconds after which a kernel of `toolchain` is refused."""
        said = toolchain.measure.timeout
        return self.timeout if said is None else said

    def _price(self, wanted: Sequence[Wanted]) -> None:
        """Find out the costs of kernels that are not known yet."""
        self._run([self._job(each) for each in wanted if self._measures(each)])

    def _measures(self, wanted: Wanted) -> bool:
        """Whether a kernel must be measured. If so, the overheads that this needs are known now."""
        self.counts.found += 1
        self.watch(self.counts)
        if reason := unsupported(wanted.offered[0], self.backend_of, wanted.kernel):
            refused = Infeasible(reason)
            known = [_refused(each, wanted, refused) for each in wanted.offered]
            self._learned(wanted, known)
            return False
        if self._is_recorded(wanted):
            return False
        self._know_overheads(wanted)
        return True

    def _know_overheads(self, wanted: Wanted) -> None:
        """Measure now, alone, what the costs of a kernel need besides its own time."""
        for each in wanted.offered:
            self.overheads.know(each.toolchain, wanted.backend)

    def _job(self, wanted: Wanted) -> Job[_Task, Any]:
        """Measure the variants of a kernel that are not in the store."""
        self.counts.measured += 1
        self.watch(self.counts)
        every = []
        stored = self._stored(wanted)
        for candidate, context, known in zip(wanted.offered, wanted.key[1], stored, strict=True):
            every.append(known or (yield from self._new(candidate, wanted, context)))
        every = yield from self._variants_in_turn(wanted, every)
        self._learned(wanted, every)

    def _variants_in_turn(
        self, wanted: Wanted, every: list[Measurement]
    ) -> Generator[tuple[_Task, float], _Answer, list[Measurement]]:
        """The measurements of variants, of which those about as cheap as the cheapest are new."""
        margin = margin_of(wanted.offered[0])
        least = cheapest_of(every, 0)
        close = tuple(
            (wanted, each) for each in every if runs(each) and may_be_equal([each], [least], margin)
        )
        if not is_unsure(close):
            return every
        new = yield from self._timed_in_turn(close)
        by_variant = {each.variant: each for each in new}
        return [by_variant.get(each.variant, each) for each in every]

    def _learned(self, wanted: Wanted, measured: Iterable[Measurement]) -> None:
        self._known[wanted.key] = tuple(measured)
        for when in filter(None, map(expiry, self._known[wanted.key])):
            self.counts.retried = min(when, self.counts.retried or when)
        self._count(self._chosen(wanted).cost)

    def _stored(self, wanted: Wanted) -> list[Measurement | None]:
        """What the store has for each variant of a kernel."""
        names = self._names(wanted)
        return [self._first(names, context) for context in wanted.key[1]]

    def _names(self, wanted: Wanted) -> tuple[str, str, str]:
        """
        The names of a kernel in the store. The others are those of one that was too slow for its
        time limit, or too large for its memory: it may have a cost with other limits.
        """
        kernel, _, limit = wanted.key
        memory = f"{kernel} in {self.memory // _MIB} MiB"
        return kernel, f"{kernel} in {limit:g} s", memory

    def _first(self, names: Sequence[str], context: str) -> Measurement | None:
        found = (self.store.find(name, context) for name in names)
        return next((each for each in found if each is not None and not is_expired(each)), None)

    def _new(
        self, candidate: CandidateKernel, wanted: Wanted, context: str
    ) -> Generator[tuple[_Task, float], _Answer, Measurement]:
        """A measurement that was not in the store, and is now."""
        measured = yield from self._measure(candidate)
        kernel, too_slow, too_large = self._names(wanted)
        label, variant = candidate.label, candidate.toolchain.variant
        match measured:
            case Failed():
                names = {Refusal.TIME: too_slow, Refusal.MEMORY: too_large}
                name = names.get(measured.kind, kernel)
                refused = Infeasible(measured.reason, measured.kind)
                found = Measurement(name, context, label, refused, variant)
            case Timing(seconds, error, spread):
                found = Measurement(kernel, context, label, seconds, variant, error, spread)
        return self._kept.keep(found)

    def _measure(
        self, candidate: CandidateKernel
    ) -> Generator[tuple[_Task, float], _Answer, Timing | Failed]:
        """The seconds of a kernel, without the cost of entering the executable."""
        toolchain = candidate.toolchain
        backend = self.backend_of(toolchain)
        if toolchain.variant == IN_PLACE:
            return self._in_place(candidate, backend)
        measured = yield from self._work(self._task(candidate), self._limit(toolchain))
        assert not isinstance(measured, Overhead | InTurn)
        return measured if isinstance(measured, Failed) else self._own(candidate, measured)

    def _own(self, candidate: CandidateKernel, timing: Timing) -> Timing:
        """A timing less the cost of entering the executable."""
        toolchain = candidate.toolchain
        self.overheads.learn(timing)
        return self.overheads.without_entry(timing, toolchain, self.backend_of(toolchain))

    def _task(self, candidate: CandidateKernel) -> KernelTask:
        """The task to time a candidate."""
        backend, *libraries = makers(candidate, self.backend_of)
        given = self._values(candidate, kernel_view(candidate, backend))
        assert not isinstance(given, str)
        return kernel_task(
            candidate,
            backend,
            self.sizes,
            libraries=tuple(libraries),
            given=given,
            others=self._others(candidate),
            reference=self.overheads.reference(),
        )

    def aimed(self, candidate: CandidateKernel) -> CandidateKernel:
        """`candidate` for the processor on which it is timed."""
        if self.fleet is None:
            return candidate
        return replace(candidate, toolchain=self.machine.aimed(candidate.toolchain))

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
            self.overheads.know(each.toolchain, self.backend_of(each.toolchain))

        def job(candidate: CandidateKernel) -> Job[_Task, Any]:
            hear(candidate, (yield from self._measure(candidate)))

        self._run([job(each) for each in candidates])

    def _in_place(self, candidate: CandidateKernel, backend: Backend) -> Timing | Failed:
        """
        What runs no code. Its operands are views of its result, in place of tensors that they would
        have anyway. So it costs less than a launch, and as much as the lower bound says.
        """
        launch = self.launch(candidate.toolchain, backend)
        if isinstance(launch, Infeasible):
            return Failed(launch.reason, launch.kind)
        seconds = launch * LEAST_LAUNCH
        return Timing(seconds, spread=Spread(seconds, seconds, 1, "a part of a launch"))

    def _count(self, cost: Cost) -> None:
        if isinstance(cost, Infeasible):
            self.counts.infeasible += 1
            reasons, kinds = self.counts.reasons, self.counts.kinds
            reasons[cost.reason] = reasons.get(cost.reason, 0) + 1
            kinds[cost.kind] = kinds.get(cost.kind, 0) + 1
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


def _refused(candidate: CandidateKernel, wanted: Wanted, reason: Infeasible) -> Measurement:
    """What is known of a kernel that its backend does not support; it is not kept."""
    return Measurement(wanted.key[0], "", candidate.label, reason, candidate.toolchain.variant)


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
