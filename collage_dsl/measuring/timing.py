"""Time calls as models make them, on a clock that other processes hardly disturb."""

import resource
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from collage_dsl.graph import Measuring
from collage_dsl.measuring.interval import is_exact

Call = Callable[[], object]

PERCENTILE = Measuring().percentile
"""The percentile that represents a series of times. It is low, because disturbances only add."""

_RETAKES = 3
"""How often a disturbed call is timed, at most."""

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


def times_in_turn(every: Sequence[Timed], after: Call = lambda: None) -> list[list[float]]:
    """
    The seconds of calls, which run in turn, so that a disturbance of the machine disturbs all of
    them. They run until each is settled, or their budgets together are spent. `after` runs after
    each round.
    """
    times: list[list[float]] = [[] for _ in every]
    deadline = time.monotonic() + sum(each.measure.budget for each in every)
    least = max(each.measure.least for each in every)
    while len(times[0]) < least or (
        time.monotonic() < deadline
        and not all(each.is_settled(found) for each, found in zip(every, times, strict=True))
    ):
        for each, found in zip(every, times, strict=True):
            found.append(each.taken())
        after()
    return times


REFERENCE_RUNS = 400
"""The number of runs of the reference kernel that find the speed of the machine."""

_BURST, _REST = 20, 0.02
"""The number of its runs without a rest, and the seconds of the rest after them."""

_SPEED_PERCENTILE = 10

_TRIES = 3
"""How often times are taken, at most, while something makes the machine slower."""

_SLOWER = 1.2
"""
Something makes the machine slower if the reference kernel takes more than this multiple of its
usual seconds. The frequency changes by less while other cores work or rest.
"""


def times_and_speed(every: Sequence[Timed], usual: float) -> tuple[list[list[float]], float]:
    """
    The times of `times_in_turn`, and the speed of the machine meanwhile, as a part of that at which
    the reference kernel takes `usual` seconds. It runs once in each round.

    Other virtual machines on the same core make it slower for some milliseconds, which says nothing
    of other times. So the machine has its usual speed if any run took about as long as usual. If
    none did, the times are taken again as soon as it has its usual speed.
    """
    run, slow = _reference(), _SLOWER * usual
    for _ in range(_TRIES):
        taken: list[float] = []
        times = times_in_turn(every, partial(_append, taken, run))
        if min(taken) <= slow:
            return times, 1.0
        now = _reference_times(run, slow)
        if min(now) > slow:
            return times, usual / low(now, _SPEED_PERCENTILE)
    return times, usual / low(taken, _SPEED_PERCENTILE)


def reference() -> float:
    """The seconds that the reference kernel takes while nothing disturbs it."""
    return low(_reference_times(_reference(), 0.0), _SPEED_PERCENTILE)


def _append(taken: list[float], run: Call) -> None:
    taken.append(undisturbed(run, 1))


def _reference_times(run: Call, enough: float) -> list[float]:
    """The seconds of the reference kernel, until a run takes no longer than `enough`."""
    taken: list[float] = []
    while len(taken) < REFERENCE_RUNS and min(taken, default=inf) > enough:
        if taken and len(taken) % _BURST == 0:
            time.sleep(_REST)
        _append(taken, run)
    return taken


def times_after(before: Call, call: Call, *, num_cores: int, measure: Measuring) -> list[float]:
    """The seconds of `call`, each time after `before`; see `Timed`."""
    (times,) = times_in_turn([Timed(before, call, num_cores, measure)])
    return times


def interleaved(calls: list[Call], num_cores: int, *, budget: float) -> list[list[float]]:
    """
    The seconds of each of `calls`. They run in turn, so that a disturbance of the machine disturbs
    all of them. Stops after `budget` seconds, but not before five rounds.
    """
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    deadline = time.monotonic() + budget
    while len(times[0]) < 5 or (len(times[0]) < 200 and time.monotonic() < deadline):
        for call, series in zip(calls, times, strict=True):
            series.append(undisturbed(call, num_cores))
    return times


def undisturbed(call: Call, num_cores: int, before: Call = lambda: None) -> float:
    """The seconds of one call that nothing disturbed, or of the last one that was tried."""
    for _ in range(_RETAKES):
        before()
        seconds, disturbed = sample(call, num_cores)
        if not disturbed:
            break
    return seconds


def _reference() -> Call:
    """
    The reference kernel: some fixed arithmetic on data in the first-level cache. Only the speed of
    the processor changes how long it takes.
    """
    data = np.linspace(0.5, 1.5, 2048, dtype=np.float32)

    def run() -> None:
        for _ in range(20):
            np.exp(data, out=data)
            np.log(data, out=data)

    return run


def evict() -> None:
    """Replace the contents of the last-level cache."""
    buffer = _buffer()[: last_level_cache_bytes() * 5 // 4 // 8]
    np.add(buffer, 1, out=buffer)


def read_other(count: int) -> None:
    """Read `count` bytes of other memory, as the rest of a model does between two runs."""
    _buffer()[: count // 8].max(initial=0)


def read(arrays: Iterable[np.ndarray[Any, Any]]) -> None:
    """Read all of some arrays, which have their places in the caches then."""
    for array in arrays:
        array.reshape(-1).view(np.uint8).max(initial=0)


@cache
def _buffer() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.ones(2 * last_level_cache_bytes() // 8, np.int64)  # zeros share one page


@cache
def last_level_cache_bytes() -> int:
    """The size of the largest cache of the first core; 32 MiB if the system does not say."""
    sizes = [
        _bytes(path.read_text())
        for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    ]
    return max(sizes, default=32 << 20)


def _bytes(size: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    number = size.strip()
    return int(number[:-1]) * units[number[-1]] if number[-1] in units else int(number)


@cache
def cpu_name() -> str:
    """The model name of the processor, as the system gives it."""
    described = Path("/proc/cpuinfo")
    lines = described.read_text().splitlines() if described.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "unknown processor")
