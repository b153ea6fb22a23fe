"""Time calls as models make them, on a clock that other processes hardly disturb."""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from collage_dsl.graph import Measuring

Call = Callable[[], object]

_SETTLED = 6
"""The fewest times of which the low ones may agree."""

_AGREEMENT = 0.02
"""Times agree that differ by this part of them at most."""

PERCENTILE = Measuring().percentile
"""The percentile that represents a series of times. It is low, because disturbances only add."""


def clock(num_cores: int) -> Callable[[], int]:
    """
    A clock in nanoseconds. For one core, the CPU time of this thread, which a busy machine does not
    change; for several cores, the wall time.
    """
    return time.thread_time_ns if num_cores == 1 else time.perf_counter_ns


def timed(call: Call, now: Callable[[], int]) -> float:
    """The seconds that one call takes."""
    start = now()
    call()
    return (now() - start) * 1e-9


def low(times: Sequence[float], percentile: int = PERCENTILE) -> float:
    """The `percentile`-th percentile."""
    return float(np.percentile(times, percentile))


def times_after(before: Call, call: Call, *, num_cores: int, measure: Measuring) -> list[float]:
    """
    The seconds of `call`, each time after `before`, which is not timed: it makes the caches as they
    are when a model calls. `measure` says how many calls are timed at most.
    """
    now = clock(num_cores)
    times: list[float] = []
    deadline = time.monotonic() + measure.budget
    while len(times) < measure.least or (
        len(times) < measure.repeats
        and time.monotonic() < deadline
        and not is_settled(times, measure.percentile)
    ):
        before()
        times.append(timed(call, now))
    return times


def is_settled(times: Sequence[float], percentile: int = PERCENTILE) -> bool:
    """
    Whether more times would hardly change the `percentile`-th percentile: twice as many of the
    times, or two fifths if that is more, agree.
    """
    if len(times) < _SETTLED:
        return False
    upper = low(times, min(100, max(40, 2 * percentile)))
    return upper <= (1 + _AGREEMENT) * min(times)


def interleaved(calls: list[Call], num_cores: int, *, budget: float) -> list[list[float]]:
    """
    The seconds of each of `calls`. They run in turn, so that a disturbance of the machine disturbs
    all of them. Stops after `budget` seconds, but not before five rounds.
    """
    now = clock(num_cores)
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    deadline = time.monotonic() + budget
    while len(times[0]) < 5 or (len(times[0]) < 200 and time.monotonic() < deadline):
        for call, series in zip(calls, times, strict=True):
            series.append(timed(call, now))
    return times


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
