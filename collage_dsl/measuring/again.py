"""
Time kernels once more: those that may cost the same as others, whose costs are doubted, or that
were timed while the machine was slower than usual.
"""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from collage_dsl.cost import Cost, Infeasible, Measurement
from collage_dsl.cost.spread import Spread
from collage_dsl.measuring.kernels import Kernels
from collage_dsl.measuring.known import Known
from collage_dsl.measuring.pace import LONG
from collage_dsl.measuring.process import Failed
from collage_dsl.measuring.task import Answer, Task, Timing
from collage_dsl.measuring.timer import Timer
from collage_dsl.measuring.timing import AFTER_WAITING, LOWER_OF_TWO
from collage_dsl.measuring.ways import (
    Wanted,
    Way,
    Ways,
    by_variant,
    close_variants,
    close_ways,
    doubted,
    doubted_in_turn,
    is_unsure,
    joined,
    slowed,
    was_in_turn,
)
from collage_dsl.measuring.worker import Job

_Again = tuple[Way, Job[Task, Any]]
"""Kernels, and what times them again."""


@dataclass(frozen=True, slots=True)
class Again:
    """Times kernels that are `known` once more, by `timer`, and keeps what they cost then."""

    kernels: Kernels
    timer: Timer
    known: Known

    def compare(self, groups: Sequence[Ways]) -> bool:
        """
        Time the ways of each group that may cost the same, and were not timed in turn yet, in turn,
        and kernels whose costs are doubted once more. Says whether a cost has changed.
        """
        unsure = joined(filter(is_unsure, map(self._close, groups)))
        twice = [] if unsure else joined(filter(None, map(doubted_in_turn, map(self.ways, groups))))
        return self._are_changed(
            [
                *((parts, self._in_turn(parts)) for parts in unsure),
                *(((part,), self._once_more(*part)) for part in self._doubted(groups, unsure)),
                *((parts, self._in_turn_once_more(parts)) for parts in twice),
            ]
        )

    def wait(self, groups: Sequence[Ways]) -> bool:
        """
        Time the kernels of the first way of each group, which are planned, once more if they were
        timed while the machine was slower than usual. Says whether a cost has changed.
        """
        parts = {part[0].key: part for group in groups for part in slowed(self.ways(group))}
        return self._are_changed([((part,), self._after_waiting(*part)) for part in parts.values()])

    def ways(self, group: Ways) -> list[Way]:
        """Those of which all kernels were measured and can run, by their chosen variants."""
        ways = []
        for way in group:
            wanted = [w for w in map(self.kernels.wanted, way) if isinstance(w, Wanted)]
            parts = [(w, self.known.chosen(w)) for w in wanted if w in self.known]
            can_run = (not isinstance(measured.cost, Infeasible) for _, measured in parts)
            if len(parts) == len(way) and all(can_run):
                ways.append(tuple(parts))
        return ways

    def timed_in_turn(self, parts: Way) -> Generator[tuple[Task, float], Answer, list[Measurement]]:
        """New measurements of kernels; the known ones where any kernel fails now."""
        known = [measured for _, measured in parts]
        timings = yield from self.timer.time_in_turn([by_variant(*part) for part in parts])
        if timings is None:
            return known
        pairs = zip(known, timings, strict=True)
        new = [replace(old, cost=each.seconds, spread=each.spread) for old, each in pairs]
        return list(map(self.kernels.kept.keep, new))

    def _are_changed(self, again: Sequence[_Again]) -> bool:
        """Time kernels again; whether any costs something else now."""
        every = [wanted for parts, _ in again for wanted, _ in parts]
        before = [self.known.chosen(wanted) for wanted in every]
        self.timer.know(each for wanted in every for each in wanted.offered)
        self.timer.run(job for _, job in again)
        pairs = zip(before, map(self.known.chosen, every), strict=True)
        return any((old.variant, old.cost) != (new.variant, new.cost) for old, new in pairs)

    def _close(self, group: Ways) -> Way:
        """
        The kernels of ways that may cost the least, by each variant that may be the cheapest. Of
        those that were timed in turn before, only the kernels of the first two ways. None where one
        way costs the least, if that is several kernels: each of them is in a group by itself.
        """
        close = close_ways(self.ways(group))
        if len(close) == 1 and len(close[0]) > 1:
            return ()
        first = {wanted.key for way in close[:2] for wanted, _ in way}
        parts = {part[0].key: part for way in close for part in way}
        return tuple(
            (wanted, each)
            for wanted, chosen in parts.values()
            for each in close_variants(self.known.every(wanted), chosen)
            if wanted.key in first or not was_in_turn(each)
        )

    def _doubted(self, groups: Iterable[Ways], unsure: Iterable[Way]) -> Way:
        """The kernels of groups whose costs are doubted, except those that are `unsure`."""
        known = {wanted.key for parts in unsure for wanted, _ in parts}
        found = {part[0].key: part for group in groups for part in doubted(self.ways(group))}
        return tuple(part for key, part in found.items() if key not in known)

    def _in_turn(self, parts: Way) -> Job[Task, Any]:
        """Time kernels again, in turn, and keep what they take if all of them can run."""
        new = yield from self.timed_in_turn(parts)
        for (wanted, _), measured in zip(parts, new, strict=True):
            self.known.replace(wanted, measured)

    def _once_more(self, wanted: Wanted, known: Measurement) -> Job[Task, Any]:
        """Time a kernel once more, and keep the lower of the two times."""
        again = yield from self.timer.time(by_variant(wanted, known))
        self._keep_lower(wanted, known, again)

    def _in_turn_once_more(self, parts: Way) -> Job[Task, Any]:
        """Time kernels in turn once more, and keep the lower of the two times of each."""
        timings = yield from self.timer.time_in_turn([by_variant(*part) for part in parts])
        if timings is not None:
            for part, again in zip(parts, timings, strict=True):
                self._keep_lower(*part, again)

    def _after_waiting(self, wanted: Wanted, known: Measurement) -> Job[Task, Any]:
        """
        Time a kernel once more, and wait longer for the usual speed of the machine. Keeps the time
        at the higher speed.
        """
        spread = known.spread
        assert spread is not None
        again = yield from self.timer.time(by_variant(wanted, known), LONG)
        said = spread.method + AFTER_WAITING
        if isinstance(again, Timing) and again.spread and again.spread.speed > spread.speed:
            self._keep(wanted, known, again.seconds, replace(again.spread, method=said))
        else:
            self._keep(wanted, known, known.cost, replace(spread, method=said))

    def _keep_lower(self, wanted: Wanted, known: Measurement, again: Timing | Failed) -> None:
        """Keep the lower of two times of a kernel, of which the second may have failed."""
        cost, spread = known.cost, known.spread
        assert spread is not None
        assert not isinstance(cost, Infeasible)
        if isinstance(again, Timing) and again.spread and again.seconds < cost:
            cost, spread = again.seconds, again.spread
        said = spread.method.removesuffix(LOWER_OF_TWO) + LOWER_OF_TWO
        self._keep(wanted, known, cost, replace(spread, method=said))

    def _keep(self, wanted: Wanted, known: Measurement, cost: Cost, spread: Spread) -> None:
        """Keep another cost of a kernel by a variant, in the store too."""
        measured = self.kernels.kept.keep(replace(known, cost=cost, spread=spread))
        self.known.replace(wanted, measured)
