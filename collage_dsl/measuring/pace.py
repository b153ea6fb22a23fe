"""Whether the machine has its usual speed. A fixed piece of arithmetic tells it."""

import time
from collections.abc import Callable
from typing import ClassVar

import numpy as np

SLOWER = 1.2
"""
Something makes the machine slower if the reference kernel takes more than this multiple of its
usual seconds. The frequency changes by less while other cores work or rest.
"""

PATIENCE = 1.0
"""The seconds for which a process may wait for a slower machine, and a part of its time."""

_PART = 0.1
"""The part of the time of a process for which it may wait besides."""

_PAUSE = 0.02
"""The seconds between two runs of the reference kernel while the machine is slower."""

_PERCENTILE = 10
"""Of the seconds of the reference kernel. Disturbances only add time."""

_RUNS, _BURST = 400, 20
"""How many runs find the usual speed, and how many of them without a pause."""


class Pace:
    """
    The speed of the machine now. The reference kernel takes `usual` seconds at the usual speed; if
    it is seen to take less, so many. Without a number they are found now, in half a second.

    Other virtual machines on the same core make it slower, up to half as fast, for some
    milliseconds up to some seconds. This says nothing of other times.
    """

    _waited: ClassVar[float] = 0.0
    """The seconds for which this process has waited."""

    _since: ClassVar[float | None] = None
    """When this process asked for the first time."""

    def __init__(self, usual: float | None = None) -> None:
        self._run = reference_kernel()
        self._readings: list[float] = []
        self.usual = usual or reference()
        self._believed = self.usual
        self.is_usual = True
        self.read()

    def read(self) -> float:
        """The seconds that the reference kernel takes now; they say whether it `is_usual`."""
        taken = _seconds(self._run)
        self._readings.append(taken)
        self.usual = min(self.usual, taken)
        self.is_usual = taken <= SLOWER * self.usual
        return taken

    @property
    def is_given_up(self) -> bool:
        """Whether the machine is slower, and this process has waited for it long enough."""
        return not self.is_usual and self._waited > PATIENCE + _PART * self._elapsed()

    def wait(self) -> float:
        """Wait until the machine has its usual speed, but not too long; the seconds of that."""
        before = self._waited
        while not self.is_usual and not self.is_given_up:
            start = time.monotonic()
            time.sleep(_PAUSE)
            self.read()
            Pace._waited += time.monotonic() - start
        return self._waited - before

    @staticmethod
    def _elapsed() -> float:
        if Pace._since is None:
            Pace._since = time.monotonic()
        return time.monotonic() - Pace._since

    @property
    def speed(self) -> float:
        """The speed that the machine had so far, as a part of the usual one; 1 if about that."""
        taken = float(np.percentile(self._readings, _PERCENTILE))
        return 1.0 if taken <= SLOWER * self.usual else self.usual / taken

    @property
    def gain(self) -> float:
        """How much faster the machine can be than was said at first: the usual speed, by that."""
        return self._believed / self.usual if self.usual else 1.0


def reference() -> float:
    """The seconds that the reference kernel takes while nothing disturbs it."""
    run, taken = reference_kernel(), []
    for count in range(_RUNS):
        if count and count % _BURST == 0:
            time.sleep(_PAUSE)
        taken.append(_seconds(run))
    return float(np.percentile(taken, _PERCENTILE))


def _seconds(run: Callable[[], object]) -> float:
    """
    The processor time of a call in this thread, right after another one: what ran before may have
    displaced its code and data from the caches.
    """
    run()
    start = time.thread_time_ns()
    run()
    return (time.thread_time_ns() - start) * 1e-9


def reference_kernel() -> Callable[[], object]:
    """
    Some fixed arithmetic on data in the first-level cache. Only the speed of the processor changes
    how long it takes.
    """
    data = np.linspace(0.5, 1.5, 2048, dtype=np.float32)

    def run() -> None:
        for _ in range(20):
            np.exp(data, out=data)
            np.log(data, out=data)

    return run
