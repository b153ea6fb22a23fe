"""Time calls in turns, with warm and with cold caches."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from collage_dsl.measuring.timing import evict, low, warm

Call = Callable[[], object]

HOT_SECONDS = 3e-4
"""Calls shorter than this are repeated until they take so long, when caches are warm."""


@dataclass(frozen=True, slots=True)
class Time:
    """Microseconds of a call: `hot`, called again and again; `evicted`, with cold caches."""

    hot: float
    evicted: float

    def less(self, other: Time) -> Time:
        return Time(max(self.hot - other.hot, 0.1), max(self.evicted - other.evicted, 0.1))


@dataclass(frozen=True, slots=True)
class Timed:
    """
    A call to be timed. After the caches are evicted, `warm` runs first: a small model in the same
    engine, so that the engine's own code is in the caches, as it is while a model runs.
    """

    call: Call
    warm: Call


def measured(timed: Sequence[Timed], threads: int, rounds: int, budget: float) -> list[Time]:
    """
    A low percentile of the times of each call. They run in turns, for at most `rounds` rounds.
    After five rounds they stop when `budget` seconds have passed.
    """
    counts = [max(1, int(HOT_SECONDS / max(1e-7, seconds(each.call, threads)))) for each in timed]
    hot: list[list[float]] = [[] for _ in timed]
    cold: list[list[float]] = [[] for _ in timed]
    deadline = time.monotonic() + budget
    while len(hot[0]) < min(5, rounds) or (len(hot[0]) < rounds and time.monotonic() < deadline):
        for index, each in enumerate(timed):
            settle(threads)
            each.call()
            hot[index].append(seconds(each.call, threads, counts[index]))
            evict()
            each.warm()
            cold[index].append(seconds(each.call, threads))
    return [Time(low(h) * 1e6, low(c) * 1e6) for h, c in zip(hot, cold, strict=True)]


def in_turns(calls: Sequence[Call], threads: int, budget: float) -> list[float]:
    """
    A low percentile of the seconds of each call, of at least five and about 200 at most. In its
    turn, each is made for 30 ms first, as the others have used the caches meanwhile.
    """
    times: list[list[float]] = [[] for _ in calls]
    deadline = time.monotonic() + budget
    while len(times[0]) < 5 or (len(times[0]) < 200 and time.monotonic() < deadline):
        for call, series in zip(calls, times, strict=True):
            settle(threads)
            warm(call)
            series.extend(seconds(call, threads) for _ in range(3))
    return list(map(low, times))


def seconds(call: Call, threads: int, times: int = 1) -> float:
    """Those of one call: CPU time of the process if there is one thread, else wall time."""
    now = time.process_time_ns if threads == 1 else time.perf_counter_ns
    begin = now()
    for _ in range(times):
        call()
    return (now() - begin) * 1e-9 / times


def settle(threads: int) -> None:
    """Wait until the threads of other engines sleep. Those of ncnn look for work for 20 ms."""
    if threads > 1:
        time.sleep(0.03)
