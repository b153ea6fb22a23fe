"""Whether the machine has its usual speed. A fixed piece of arithmetic tells it."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import ClassVar

import numpy as np

SLOWER = 1.2
"""
Something makes the machine slower if the reference kernel takes more than this multiple of its
usual seconds. The frequency changes by less while other cores work or rest.
"""


@dataclass(frozen=True, slots=True)
class Patience:
    """
    How long a process waits for a slower machine: so many `seconds`, and this `part` of its time;
    but for what is timed now at most `at_once` seconds, which makes it no other patience.
    """

    seconds: float
    part: float
    at_once: float = field(default=inf, compare=False)


BRIEF = Patience(1.0, 0.1)
"""The patience with any kernel."""

LONG = Patience(10.0, 0.5, at_once=10.0)
"""The patience with kernels that are in a plan, and with what the cost of every kernel contains."""

_PAUSE = 0.02
"""The seconds between two runs of the reference kernel while the machine is slower."""

_PERCENTILE = 10
"""Of the seconds of the reference kernel. Disturbances only add time."""

_OFTEN = 20
"""
A machine that has its usual speed in a smaller percentage of the time is taken as it is: models
that run there have the lower speed, too.
"""

_APART, _FEWEST, _MOST = 0.05, 100, 600
"""
Readings that are so many seconds apart or more tell how often a machine has a speed. Of these, the
fewest that tell it, and the most that count: the last half minute, if all are spent waiting.
"""

_RUNS, _BURST = 400, 20
"""How many runs find the usual speed, and how many of them without a pause."""


class Recent:
    """Readings that are apart enough to tell how often the machine had which speed."""

    def __init__(self) -> None:
        self._taken: deque[float] = deque(maxlen=_MOST)
        self._until = -inf
        self.often = 0.0
        """What one in five of them is below; 0 if there are too few."""

    def add(self, taken: float) -> None:
        """Add a reading of now, if the last one was long enough ago."""
        now = time.monotonic()
        if now >= self._until:
            self._until = now + _APART
            self._taken.append(taken)
            if len(self._taken) >= _FEWEST:
                self.often = float(np.percentile(self._taken, _OFTEN))


class Pace:
    """
    The speed of the machine now. The reference kernel takes `usual` seconds at the usual speed; if
    it is seen to take less, so many. Without a number they are found now, in half a second.

    Other virtual machines on the same core make it slower, up to half as fast, for some
    milliseconds up to some seconds. This says nothing of other times. Where they do so nearly
    always, the lower speed counts as the usual one: that of one in five readings.
    """

    _recent: ClassVar[Recent] = Recent()
    """The last readings of this process."""

    _waited: ClassVar[dict[Patience, float]] = {}
    """The seconds for which this process has waited, with each patience."""

    _since: ClassVar[float | None] = None
    """When this process asked for the first time."""

    def __init__(self, usual: float | None = None, patience: Patience = BRIEF) -> None:
        self._patience = patience
        self._here = 0.0
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
        self._recent.add(taken)
        self.is_usual = taken <= SLOWER * self.level
        return taken

    @property
    def level(self) -> float:
        """The seconds of the reference kernel at the speed that counts as usual."""
        often = self._recent.often
        return self.usual if often <= SLOWER * self.usual else often

    @property
    def is_given_up(self) -> bool:
        """Whether the machine is slower, and this process has waited for it long enough."""
        patience, waited = self._patience, self._waited.get(self._patience, 0.0)
        is_long = waited > patience.seconds + patience.part * self._elapsed()
        return not self.is_usual and (is_long or self._here > patience.at_once)

    def wait(self) -> float:
        """Wait until the machine has its usual speed, but not too long; the seconds of that."""
        before = self._here
        while not self.is_usual and not self.is_given_up:
            start = time.monotonic()
            time.sleep(_PAUSE)
            self.read()
            self._count(time.monotonic() - start)
        return self._here - before

    def _count(self, waited: float) -> None:
        self._here += waited
        Pace._waited[self._patience] = self._waited.get(self._patience, 0.0) + waited

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
