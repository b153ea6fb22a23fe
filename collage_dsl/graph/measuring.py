"""The settings for timing kernels: the `measure` block of a target."""

from dataclasses import dataclass
from typing import Literal

Runs = Literal["often", "rarely"]


@dataclass(frozen=True, slots=True)
class Measuring:
    """
    How the kernels of a target are timed, as its `measure` block says; times are in seconds.

    A kernel runs at most `repeats` times, fewer where its cost is known within `noise_margin`, a
    part of 1. No run starts after `budget` seconds, but at least three are made (or `repeats`, if
    that is less). Its cost is the given `percentile` of its times, usually a low one, because
    disturbances only ever add time. Costs that differ by less than `noise_margin` count as equal. A
    kernel that is not built and timed within `timeout` seconds is refused; with None, whoever
    measures sets that limit.

    `runs` says what is planned for. A model that runs `often` finds its activations where the
    kernel before left them, and its weights where one run of the model has left them. One that runs
    `rarely` finds all its data in memory (docs/measuring.md).
    """

    repeats: int = 50
    percentile: int = 20
    budget: float = 0.3
    timeout: float | None = None
    runs: Runs = "often"
    noise_margin: float = 0.02

    @property
    def least(self) -> int:
        """The number of runs that are made however long they take."""
        return min(3, self.repeats)
