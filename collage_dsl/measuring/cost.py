"""The cost function that measures: it builds and times each distinct kernel once per machine."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from math import nan
from typing import Any, Self

from collage_dsl.backends.registry import BackendOf
from collage_dsl.cost import Cost, CostStore, Infeasible, Measurement, Refusal, Variant
from collage_dsl.cost.expiry import expiry, is_expired
from collage_dsl.cost.records import Records
from collage_dsl.graph import CandidateKernel
from collage_dsl.graph.sizes import Sizes
from collage_dsl.graph.tuning import TUNED
from collage_dsl.measuring.again import Again
from collage_dsl.measuring.counts import Counts
from collage_dsl.measuring.executors import Fleet
from collage_dsl.measuring.kept import Kept
from collage_dsl.measuring.kernels import Kernels
from collage_dsl.measuring.known import Known
from collage_dsl.measuring.machine import this_machine
from collage_dsl.measuring.process import Failed
from collage_dsl.measuring.task import Answer, Task, Timing
from collage_dsl.measuring.timer import Timer
from collage_dsl.measuring.ways import (
    Key,
    Wanted,
    Ways,
    cheapest_of,
    is_unsure,
    made_equal,
    margin_of,
    may_be_equal,
    runs,
    variant_of,
)
from collage_dsl.measuring.worker import Job

_MIB = 1 << 20


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
    raises `MeasuringError` and is not stored. `watch` hears the counts before and after a kernel is
    measured.

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
        self.machine = fleet.machine if fleet else this_machine()
        self.store = store
        self.watch = watch
        self.counts = Counts()
        self._kept = Kept(store, self.machine)
        self.kernels = Kernels(
            backend_of,
            self._kept,
            records,
            timeout=timeout,
            sizes=sizes,
            given=given,
            elsewhere=fleet is not None,
        )
        self.timer = Timer(self.kernels, self.counts, memory=memory, fleet=fleet)
        self._known = Known()
        self._again = Again(self.kernels, self.timer, self._known)
        self._equal: dict[Key, float] = {}
        self._measured_at: dict[CandidateKernel, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.timer.stop()

    def __call__(self, candidate: CandidateKernel) -> Cost:
        wanted = self.kernels.wanted(candidate)
        if isinstance(wanted, Infeasible):
            return wanted
        if wanted not in self._known:
            self._price([wanted])
        self._measured_at[candidate] = self._known.date(wanted)
        return self._cost(wanted)

    def _cost(self, wanted: Wanted) -> Cost:
        """
        The cost of a kernel that is known: its own, or that of all that are equal to it. It may
        have been timed since, so this is not less than its own.
        """
        cost = self._known.chosen(wanted).cost
        return (
            cost if isinstance(cost, Infeasible) else max(cost, self._equal.get(wanted.key, cost))
        )

    def recorded(self, candidate: CandidateKernel) -> Cost:
        """The cost that is in the store; NaN where there is none. Nothing is measured."""
        wanted = self.kernels.wanted(candidate)
        if isinstance(wanted, Infeasible):
            return wanted
        if reason := self.kernels.unsupported(wanted):
            return Infeasible(reason)
        if wanted not in self._known:
            if not self._is_recorded(wanted, or_all_but=TUNED):
                return nan
            self.counts.found += 1
        self._measured_at[candidate] = self._known.date(wanted)
        return self._cost(wanted)

    def has(self, candidate: CandidateKernel) -> bool:
        """Whether the cost of a kernel is known, or in the store, so that nothing is measured."""
        wanted = self.kernels.wanted(candidate)
        if isinstance(wanted, Infeasible) or wanted in self._known:
            return True
        if self.kernels.unsupported(wanted) or not self._is_recorded(wanted):
            return False
        self.counts.found += 1
        return True

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

    def measured_at(self, candidate: CandidateKernel) -> str:
        """When a cost that was asked for was measured, in UTC; empty where it was not measured."""
        return self._measured_at.get(candidate, "")

    def settle(self, groups: Sequence[Ways], timed: Iterable[Ways]) -> bool:
        """
        Let the ways of a group, to compute the same nodes, cost the same where they do so within
        the noise margin: as much as the dearest of those, which breaks no lower bound. Says whether
        a cost has changed. A cost that was raised for another plan stays so, or two plans might
        take turns for ever.

        Ways of the groups `timed` that may cost the same are timed in turn first, if they were not
        yet, and kernels whose costs are doubted are timed once more. Then those of the first ways,
        which are planned, that were timed while the machine was slower than usual. If that changes
        a cost, all kernels cost what was measured again: the next search is then the first one of a
        later run, which finds every cost that it asks for in the store.
        """
        timed = list(timed)
        if self._again.compare(timed) or self._again.wait(timed):
            self._equal.clear()
            return True
        every = [wanted for group in groups for way in self._again.ways(group) for wanted, _ in way]
        before = list(map(self._cost, every))
        for group in groups:  # A kernel may be in several groups, where a model repeats itself.
            for key, cost in made_equal(self._again.ways(group)):
                self._equal[key] = max(cost, self._equal.get(key, cost))
        return before != list(map(self._cost, every))

    def ahead(self, candidates: Iterable[CandidateKernel]) -> None:
        """Find out the costs of kernels that will be asked for."""
        wanted = (self.kernels.wanted(candidate) for candidate in candidates)
        by_key = {each.key: each for each in wanted if not isinstance(each, Infeasible)}
        self._price([each for each in by_key.values() if each not in self._known])

    def variants(self, candidate: CandidateKernel) -> tuple[Variant, ...]:
        """The variants of a kernel whose cost was asked for; empty for other kernels."""
        wanted = self.kernels.wanted(candidate)
        if isinstance(wanted, Infeasible) or not wanted.backend.variants:
            return ()
        return tuple(map(variant_of, self._known.every(wanted)))

    def _price(self, wanted: Sequence[Wanted]) -> None:
        """Find out the costs of kernels that are not known yet."""
        self.timer.run([self._job(each) for each in wanted if self._measures(each)])

    def _measures(self, wanted: Wanted) -> bool:
        """Whether a kernel must be measured. If so, the overheads that this needs are known now."""
        self.counts.found += 1
        if reason := self.kernels.unsupported(wanted):
            refused = Infeasible(reason)
            known = [_refused(each, wanted, refused) for each in wanted.offered]
            self._learned(wanted, known)
            return False
        if self._is_recorded(wanted):
            return False
        self.watch(self.counts)
        self.timer.know(wanted.offered)
        return True

    def _job(self, wanted: Wanted) -> Job[Task, Any]:
        """Measure the variants of a kernel that are not in the store."""
        self.counts.measured += 1
        self.watch(self.counts)
        every = []
        stored = self._stored(wanted)
        for candidate, context, known in zip(wanted.offered, wanted.key[1], stored, strict=True):
            every.append(known or (yield from self._new(candidate, wanted, context)))
        every = yield from self._variants_in_turn(wanted, every)
        self._learned(wanted, every)
        self.watch(self.counts)

    def _variants_in_turn(
        self, wanted: Wanted, every: list[Measurement]
    ) -> Generator[tuple[Task, float], Answer, list[Measurement]]:
        """The measurements of variants, of which those about as cheap as the cheapest are new."""
        margin = margin_of(wanted.offered[0])
        least = cheapest_of(every, 0)
        close = tuple(
            (wanted, each) for each in every if runs(each) and may_be_equal([each], [least], margin)
        )
        if not is_unsure(close):
            return every
        new = yield from self._again.timed_in_turn(close)
        by_variant = {each.variant: each for each in new}
        return [by_variant.get(each.variant, each) for each in every]

    def _learned(self, wanted: Wanted, measured: Iterable[Measurement]) -> None:
        known = list(measured)
        self._known.learn(wanted, known)
        self.counts.learn(self._known.chosen(wanted).cost, filter(None, map(expiry, known)))

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
        memory = f"{kernel} in {self.timer.memory // _MIB} MiB"
        return kernel, f"{kernel} in {limit:g} s", memory

    def _first(self, names: Sequence[str], context: str) -> Measurement | None:
        found = (self.store.find(name, context) for name in names)
        return next((each for each in found if each is not None and not is_expired(each)), None)

    def _new(
        self, candidate: CandidateKernel, wanted: Wanted, context: str
    ) -> Generator[tuple[Task, float], Answer, Measurement]:
        """A measurement that was not in the store, and is now."""
        measured = yield from self.timer.time(candidate)
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

    def time(
        self,
        candidates: Sequence[CandidateKernel],
        hear: Callable[[CandidateKernel, Timing | Failed], None],
    ) -> None:
        """
        Time candidates of one variant each, without a look into the store. `hear` is told of each
        as soon as it is known.
        """
        self.timer.know(candidates)

        def job(candidate: CandidateKernel) -> Job[Task, Any]:
            hear(candidate, (yield from self.timer.time(candidate)))

        self.timer.run([job(each) for each in candidates])


def _refused(candidate: CandidateKernel, wanted: Wanted, reason: Infeasible) -> Measurement:
    """What is known of a kernel that its backend does not support; it is not kept."""
    return Measurement(wanted.key[0], "", candidate.label, reason, candidate.toolchain.variant)
