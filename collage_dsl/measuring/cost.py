"""The cost function that measures: it builds and times each distinct kernel once per machine."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import Any, Self

from collage_dsl.backends.registry import BackendOf
from collage_dsl.cost import Cost, CostStore, Infeasible, Measurement, Refusal, Variant
from collage_dsl.cost.expiry import expiry, is_expired
from collage_dsl.cost.records import Records
from collage_dsl.graph import CandidateKernel
from collage_dsl.graph.sizes import Sizes
from collage_dsl.graph.tuning import TUNED
from collage_dsl.measuring.counts import Counts
from collage_dsl.measuring.executors import Fleet
from collage_dsl.measuring.kept import Kept
from collage_dsl.measuring.kernels import Kernels
from collage_dsl.measuring.machine import this_machine
from collage_dsl.measuring.pace import LONG
from collage_dsl.measuring.process import Failed
from collage_dsl.measuring.task import Answer, Task, Timing
from collage_dsl.measuring.timer import Timer
from collage_dsl.measuring.timing import AFTER_WAITING, LOWER_OF_TWO
from collage_dsl.measuring.ways import (
    Key,
    Wanted,
    Way,
    Ways,
    by_variant,
    cheapest_of,
    close_variants,
    close_ways,
    doubted,
    doubted_in_turn,
    is_unsure,
    joined,
    made_equal,
    margin_of,
    may_be_equal,
    runs,
    slowed,
    variant_of,
    was_in_turn,
)
from collage_dsl.measuring.worker import Job

_MIB = 1 << 20

_Again = tuple[Way, Job[Task, Any]]
"""Kernels, and what times them again."""


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
        self._known: dict[Key, tuple[Measurement, ...]] = {}
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
        wanted = self.kernels.wanted(candidate)
        if isinstance(wanted, Infeasible):
            return wanted
        if reason := self.kernels.unsupported(wanted):
            return Infeasible(reason)
        if wanted.key not in self._known:
            if not self._is_recorded(wanted, or_all_but=TUNED):
                return nan
            self.counts.found += 1
        self._measured_at[candidate] = self._date(wanted)
        return self._cost(wanted)

    def has(self, candidate: CandidateKernel) -> bool:
        """Whether the cost of a kernel is known, or in the store, so that nothing is measured."""
        wanted = self.kernels.wanted(candidate)
        if isinstance(wanted, Infeasible) or wanted.key in self._known:
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

    def _date(self, wanted: Wanted) -> str:
        return max(each.measured_at for each in self._known[wanted.key])

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
        if self._are_changed(self._compared(timed)) or self._are_changed(self._waiting(timed)):
            self._equal.clear()
            return True
        every = [wanted for group in groups for way in self._ways(group) for wanted, _ in way]
        before = list(map(self._cost, every))
        for group in groups:  # A kernel may be in several groups, where a model repeats itself.
            for key, cost in made_equal(self._ways(group)):
                self._equal[key] = max(cost, self._equal.get(key, cost))
        return before != list(map(self._cost, every))

    def _doubted(self, groups: Iterable[Ways], unsure: Iterable[Way]) -> Way:
        """The kernels of groups whose costs are doubted, except those that are `unsure`."""
        known = {wanted.key for parts in unsure for wanted, _ in parts}
        found = {part[0].key: part for group in groups for part in doubted(self._ways(group))}
        return tuple(part for key, part in found.items() if key not in known)

    def _compared(self, groups: Sequence[Ways]) -> list[_Again]:
        """
        Ways that may cost the same, and were not timed in turn yet, are timed so; and those whose
        costs are doubted are timed once more.
        """
        unsure = joined(filter(is_unsure, map(self._close, groups)))
        twice = (
            [] if unsure else joined(filter(None, map(doubted_in_turn, map(self._ways, groups))))
        )
        return [
            *((parts, self._in_turn(parts)) for parts in unsure),
            *(((part,), self._again(*part)) for part in self._doubted(groups, unsure)),
            *((parts, self._again_in_turn(parts)) for parts in twice),
        ]

    def _waiting(self, groups: Sequence[Ways]) -> list[_Again]:
        """
        Planned kernels that were timed while the machine was slower than usual are timed once more.
        """
        parts = {part[0].key: part for group in groups for part in slowed(self._ways(group))}
        return [((part,), self._after_waiting(*part)) for part in parts.values()]

    def _are_changed(self, again: Sequence[_Again]) -> bool:
        """Time kernels again; whether any costs something else now."""
        every = [wanted for parts, _ in again for wanted, _ in parts]
        before = [self._chosen(wanted) for wanted in every]
        self.timer.know(each for wanted in every for each in wanted.offered)
        self.timer.run(job for _, job in again)
        pairs = zip(before, map(self._chosen, every), strict=True)
        return any((old.variant, old.cost) != (new.variant, new.cost) for old, new in pairs)

    def _close(self, group: Ways) -> Way:
        """
        The kernels of ways that may cost the least, by each variant that may be the cheapest. Of
        those that were timed in turn before, only the kernels of the first two ways. None where one
        way costs the least, if that is several kernels: each of them is in a group by itself.
        """
        close = close_ways(self._ways(group))
        if len(close) == 1 and len(close[0]) > 1:
            return ()
        first = {wanted.key for way in close[:2] for wanted, _ in way}
        parts = {part[0].key: part for way in close for part in way}
        return tuple(
            (wanted, each)
            for wanted, chosen in parts.values()
            for each in close_variants(self._known[wanted.key], chosen)
            if wanted.key in first or not was_in_turn(each)
        )

    def _ways(self, group: Ways) -> list[Way]:
        """Those of which all kernels were measured and can run, by their chosen variants."""
        ways = []
        for way in group:
            wanted = [w for w in map(self.kernels.wanted, way) if isinstance(w, Wanted)]
            parts = [(w, self._chosen(w)) for w in wanted if w.key in self._known]
            can_run = (not isinstance(measured.cost, Infeasible) for _, measured in parts)
            if len(parts) == len(way) and all(can_run):
                ways.append(tuple(parts))
        return ways

    def _chosen(self, wanted: Wanted) -> Measurement:
        return cheapest_of(self._known[wanted.key], margin_of(wanted.offered[0]))

    def _in_turn(self, parts: Way) -> Job[Task, Any]:
        """Time kernels again, in turn, and keep what they take if all of them can run."""
        new = yield from self._timed_in_turn(parts)
        for (wanted, _), measured in zip(parts, new, strict=True):
            self._replace(wanted, measured)

    def _again(self, wanted: Wanted, known: Measurement) -> Job[Task, Any]:
        """Time a kernel once more, and keep the lower of the two times."""
        again = yield from self.timer.time(by_variant(wanted, known))
        self._keep_lower(wanted, known, again)

    def _again_in_turn(self, parts: Way) -> Job[Task, Any]:
        """Time kernels in turn once more, and keep the lower of the two times of each."""
        timings = yield from self.timer.time_in_turn([by_variant(*part) for part in parts])
        if timings is not None:
            for part, again in zip(parts, timings, strict=True):
                self._keep_lower(*part, again)

    def _keep_lower(self, wanted: Wanted, known: Measurement, again: Timing | Failed) -> None:
        """Keep the lower of two times of a kernel, of which the second may have failed."""
        cost, spread = known.cost, known.spread
        assert spread is not None
        assert not isinstance(cost, Infeasible)
        if isinstance(again, Timing) and again.spread and again.seconds < cost:
            cost, spread = again.seconds, again.spread
        spread = replace(spread, method=spread.method.removesuffix(LOWER_OF_TWO) + LOWER_OF_TWO)
        self._replace(wanted, self._kept.keep(replace(known, cost=cost, spread=spread)))

    def _after_waiting(self, wanted: Wanted, known: Measurement) -> Job[Task, Any]:
        """
        Time a kernel once more, and wait longer for the usual speed of the machine. Keeps the time
        at the higher speed.
        """
        spread, cost = known.spread, known.cost
        assert spread is not None
        again = yield from self.timer.time(by_variant(wanted, known), LONG)
        said = spread.method + AFTER_WAITING
        if isinstance(again, Timing) and again.spread and again.spread.speed > spread.speed:
            cost, spread = again.seconds, again.spread
        spread = replace(spread, method=said)
        self._replace(wanted, self._kept.keep(replace(known, cost=cost, spread=spread)))

    def _replace(self, wanted: Wanted, measured: Measurement) -> None:
        """Know another measurement by a variant, which is in the store too."""
        known = self._known[wanted.key]
        self._known[wanted.key] = tuple(
            measured if each.variant == measured.variant else each for each in known
        )

    def _timed_in_turn(
        self, parts: Way
    ) -> Generator[tuple[Task, float], Answer, list[Measurement]]:
        """New measurements of kernels; the known ones where any kernel fails now."""
        known = [measured for _, measured in parts]
        timings = yield from self.timer.time_in_turn([by_variant(*part) for part in parts])
        if timings is None:
            return known
        pairs = zip(known, timings, strict=True)
        new = [replace(old, cost=each.seconds, spread=each.spread) for old, each in pairs]
        return list(map(self._kept.keep, new))

    def ahead(self, candidates: Iterable[CandidateKernel]) -> None:
        """Find out the costs of kernels that will be asked for."""
        wanted = (self.kernels.wanted(candidate) for candidate in candidates)
        by_key = {each.key: each for each in wanted if not isinstance(each, Infeasible)}
        self._price([each for key, each in by_key.items() if key not in self._known])

    def variants(self, candidate: CandidateKernel) -> tuple[Variant, ...]:
        """The variants of a kernel whose cost was asked for; empty for other kernels."""
        wanted = self.kernels.wanted(candidate)
        if isinstance(wanted, Infeasible) or not wanted.backend.variants:
            return ()
        return tuple(map(variant_of, self._known.get(wanted.key, ())))

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
        new = yield from self._timed_in_turn(close)
        by_variant = {each.variant: each for each in new}
        return [by_variant.get(each.variant, each) for each in every]

    def _learned(self, wanted: Wanted, measured: Iterable[Measurement]) -> None:
        known = self._known[wanted.key] = tuple(measured)
        self.counts.learn(self._chosen(wanted).cost, filter(None, map(expiry, known)))

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
