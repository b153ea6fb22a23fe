"""Time calls as models make them, on a clock that other processes hardly disturb."""

import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf

import numpy as np

from collage_dsl.graph import Measuring, Runs
from collage_dsl.graph.arrays import Array
from collage_dsl.measuring.interval import is_exact
from collage_dsl.measuring.pace import BRIEF, SLOWER, Pace, Patience
from collage_dsl.measuring.processor import last_level_cache_bytes

Call = Callable[[], object]

PERCENTILE = Measuring().percentile
"""The percentile that represents a series of times. It is low, because disturbances only add."""

_RETAKES = 3
"""How often a disturbed call is timed, at most."""

_RETURNS = 4
"""How often a call runs after others before it is timed, until it takes what it takes alone."""

_PER_TURN = 3
"""How often a call is timed in each turn."""

_HOPELESS = 10
"""A call is not timed further if it takes so many times as long as the fastest."""

_LEAST, _MOST = 5, 200
"""The least and the most timed runs of each of several calls that run interleaved."""

_WARMING, _WARM = 0.03, 8
"""
A call that runs interleaved with others runs first, in its turn, for so many seconds, but not more
than so many times.
"""

_PAUSE = 1e-5
"""A thread that lacked the processor for at most so many seconds was not disturbed."""


def clock(num_cores: int) -> Callable[[], int]:
    """
    A clock in nanoseconds. For one core, the CPU time of this thread, which a busy machine does not
    change; for several cores, the wall time.
    """
    return time.thread_time_ns if num_cores == 1 else time.perf_counter_ns


def method(num_cores: int, percentile: int, *, in_turn: bool = False) -> str:
    """How a cost was found, in a few words; docs/measuring.md explains them."""
    times = "CPU times" if num_cores == 1 else "wall times"
    return f"percentile {percentile} of {times}{IN_TURN if in_turn else ''}"


IN_TURN = ", in turn"
"""The part of a method that says that the kernel ran in turn with others."""

LOWER_OF_TWO = ", the lower of two"
"""The part of a method that says that the kernel was timed twice."""

AFTER_WAITING = ", after waiting"
"""The part of a method that says that the kernel was timed again, with long patience."""


def low(times: Sequence[float], percentile: int = PERCENTILE) -> float:
    """The `percentile`-th percentile."""
    return float(np.percentile(times, percentile))


@dataclass(frozen=True, slots=True)
class Timed:
    """
    A call that is to be timed, each time after `before`, which is not timed: it makes the caches as
    they are when a model calls. `measure` says how many calls are timed at most.
    """

    before: Call
    call: Call
    num_cores: int
    measure: Measuring

    def taken(self) -> float:
        """The seconds of one call that nothing disturbed, or of the last one that was tried."""
        return undisturbed(self.call, self.num_cores, self.before)

    def taken_after_others(self) -> list[float]:
        """
        The same of some calls, after some that are not timed. Caches and predictors keep what was
        used again and again, so one call after others does not bring back what many calls have
        brought.
        """
        for _ in range(_RETURNS):
            self.before()
            self.call()
        return [self.taken() for _ in range(_PER_TURN)]

    def is_settled(self, times: Sequence[float]) -> bool:
        """Whether there are as many times as wanted, or they tell the percentile exactly enough."""
        how = self.measure
        enough = len(times) >= how.repeats
        return enough or is_exact(times, how.percentile, how.noise_margin)


def sample(call: Call, num_cores: int) -> tuple[float, bool]:
    """
    The seconds of one call, and whether it was disturbed: the system took the processor away from
    it, or, for one core, much more time went by than the thread had the processor.
    """
    switches, wall = _switches(num_cores), time.perf_counter_ns()
    now = clock(num_cores)
    start = now()
    call()
    seconds = (now() - start) * 1e-9
    waited = (time.perf_counter_ns() - wall) * 1e-9 - seconds
    is_late = num_cores == 1 and waited > _PAUSE + seconds * Measuring().noise_margin
    return seconds, is_late or _switches(num_cores) != switches


def _switches(num_cores: int) -> int:
    """How often the system took the processor from this thread, or from any of several threads."""
    who = resource.RUSAGE_THREAD if num_cores == 1 else resource.RUSAGE_SELF
    return resource.getrusage(who).ru_nivcsw


class Rounds:
    """The times of some calls, which run in turn."""

    def __init__(self, every: Sequence[Timed]) -> None:
        self.times: list[list[float]] = [[] for _ in every]
        self._every = every

    def extend(self, times: Sequence[Sequence[float]]) -> None:
        """Add times of each call."""
        for series, seconds in zip(self.times, times, strict=True):
            series.extend(seconds)

    def are_enough(self, *, is_late: bool) -> bool:
        """Whether each call is settled; or, if it is late, has run as often as it has to."""
        least = max(each.measure.least for each in self._every)
        pairs = zip(self._every, self.times, strict=True)
        return len(self.times[0]) >= least and (is_late or all(c.is_settled(t) for c, t in pairs))


def times_in_turn(
    every: Sequence[Timed], usual: float | None = None, patience: Patience = BRIEF
) -> tuple[list[list[float]], float]:
    """
    The seconds of calls, which run in turn, so that a disturbance of the machine disturbs all of
    them; and the speed of the machine meanwhile, as a part of its usual speed. It is above 1 if the
    machine was seen to be faster than that.

    They run until each is settled, or their budgets together are spent. Only those rounds count
    that the machine began and ended at its usual speed, at which the reference kernel takes `usual`
    seconds (by default what it takes now). While it is slower, they wait, as long as the `patience`
    says. If it stays slower, or changes all the time, the slower rounds count. So they do without
    waiting where the machine is slower nearly always.
    """
    pace, others = Pace(usual, patience), len(every) > 1
    rounds, slower = Rounds(every), Rounds(every)
    deadline = time.monotonic() + sum(each.measure.budget for each in every)
    while True:
        deadline += pace.wait()
        was_usual = pace.is_usual
        times = [each.taken_after_others() if others else [each.taken()] for each in every]
        pace.read()
        (rounds if was_usual and pace.is_usual else slower).extend(times)
        late = time.monotonic() - deadline
        if rounds.are_enough(is_late=late >= 0):
            return rounds.times, pace.gain if pace.level == pace.usual else pace.speed
        is_hopeless = pace.is_given_up or late > patience.seconds
        if is_hopeless and slower.are_enough(is_late=late >= 0):
            return slower.times, pace.speed


def interleaved(
    calls: Sequence[Call],
    num_cores: int,
    *,
    budget: float,
    runs: Runs = "often",
    patience: Patience = BRIEF,
) -> list[list[float]]:
    """
    The seconds of each of `calls`. They run in turn, so that a disturbance of the machine disturbs
    all of them. What `runs` often has its data where its last runs left it, but the others have
    used the caches meanwhile. So in its turn, a call runs some times before it is timed some times,
    and once more before each of these. What runs rarely has its data in memory. Stops after
    `budget` seconds, but not before each is timed five times. While the machine is slower than it
    was before, they wait, as long as the `patience` says. Calls that the machine still began or
    ended slower than others are left out, if five remain of each.

    A call that takes longer than the budget, and ten times as long as another, runs only twice.
    """
    hopeless = _hopeless(calls, num_cores, budget)
    running = [(place, call) for place, call in enumerate(calls) if place not in hopeless]
    pace, count = Pace(inf, patience), 0
    every: dict[int, list[tuple[float, float]]] = {place: [] for place, _ in running}
    deadline = time.monotonic() + budget
    while count < _LEAST or (count < _MOST and time.monotonic() < deadline):
        for place, call in running:
            deadline += pace.wait()
            if runs == "often":
                warm(call)
            for _ in range(_PER_TURN):
                before = pace.read()
                seconds = undisturbed(call, num_cores, evict if runs == "rarely" else call)
                every[place].append((seconds, max(before, pace.read())))
        count += _PER_TURN
    slow = SLOWER * pace.level
    times = {place: [seconds for seconds, _ in series] for place, series in every.items()}
    usual = {
        place: [seconds for seconds, taken in series if taken <= slow]
        for place, series in every.items()
    }
    if min(map(len, usual.values())) >= _LEAST:
        times = usual
    return [(times | hopeless)[place] for place in range(len(calls))]


def warm(call: Call) -> None:
    """Make a call some times, until the caches are as many calls leave them."""
    end = time.monotonic() + _WARMING
    for _ in range(_WARM):
        call()
        if time.monotonic() >= end:
            break


def _hopeless(calls: Sequence[Call], num_cores: int, budget: float) -> dict[int, list[float]]:
    """
    Make each call once, and again those that took longer than `budget` and ten times as long as the
    fastest, as some do only the first time. Gives the times of those that did so twice.
    """
    first = [sample(call, num_cores)[0] for call in calls]
    most = max(budget, _HOPELESS * min(first, default=0))
    again = {
        place: [seconds, sample(calls[place], num_cores)[0]]
        for place, seconds in enumerate(first)
        if seconds > most
    }
    return {place: times for place, times in again.items() if min(times) > most}


def undisturbed(call: Call, num_cores: int, before: Call) -> float:
    """The seconds of one call that nothing disturbed, or of the last one that was tried."""
    for _ in range(_RETAKES):
        before()
        seconds, disturbed = sample(call, num_cores)
        if not disturbed:
            break
    return seconds


def evict() -> None:
    """Replace the contents of the last-level cache."""
    buffer = _buffer()[: last_level_cache_bytes() * 5 // 4 // 8]
    np.add(buffer, 1, out=buffer)


def read_other(count: int) -> None:
    """Read `count` bytes of other memory, as the rest of a model does between two runs."""
    _buffer()[: count // 8].max(initial=0)


def read(arrays: Sequence[Array]) -> None:
    """Read all of some arrays, which have their places in the caches then."""
    for array in arrays:
        array.reshape(-1).view(np.uint8).max(initial=0)


@cache
def _buffer() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.ones(2 * last_level_cache_bytes() // 8, np.int64)  # zeros share one page
