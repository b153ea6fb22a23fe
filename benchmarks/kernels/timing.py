"""Time calls in turns, with warm and with cold caches."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from collage_dsl.measuring.timing import evict, low

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
    After five rounds they stop when `budget` seconds have passed. The clock is the CPU
    time of the process if there is one thread, else the wall time.
    """
    now = time.process_time_ns if threads == 1 else time.perf_counter_ns

    def seconds(call: Call, times: int = 1) -> float:
        begin = now()
        for _ in range(times):
            call()
        return (now() - begin) * 1e-9 / times

    counts = [max(1, int(HOT_SECONDS / max(1e-7, seconds(each.call)))) for each in timed]
    hot: list[list[float]] = [[] for _ in timed]
    cold: list[list[float]] = [[] for _ in timed]
    deadline = time.monotonic() + budget
    while len(hot[0]) < min(5, rounds) or (len(hot[0]) < rounds and time.monotonic() < deadline):
        for index, each in enumerate(timed):
            each.call()
            hot[index].append(seconds(each.call, counts[index]))
            evict()
            each.warm()
            cold[index].append(seconds(each.call))
    return [Time(low(h) * 1e6, low(c) * 1e6) for h, c in zip(hot, cold, strict=True)]
