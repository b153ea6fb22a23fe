"""Costs of kernels: seconds, or the reason why one cannot run; and of copies between devices."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from numbers import Real

from collage_dsl.graph import CandidateKernel


class Refusal(StrEnum):
    """The kind of a reason why a kernel has no cost."""

    UNSUPPORTED = "not supported"
    TIME = "time-out"
    MEMORY = "memory"
    CRASH = "crash"
    WRONG = "wrong result"

    @property
    def may_pass(self) -> bool:
        """Whether the same kernel may have a cost another time, with the same versions."""
        return self in (Refusal.TIME, Refusal.MEMORY, Refusal.CRASH)


@dataclass(frozen=True, slots=True)
class Infeasible:
    """Why a kernel cannot be built or run, in one sentence, and the kind of the reason."""

    reason: str
    kind: Refusal = field(default=Refusal.UNSUPPORTED, compare=False)


class CostError(Exception):
    """A cost function, or a lower bound, gave something that is no cost."""


Cost = float | Infeasible
"""
Seconds, finite and not negative, or the reason why there are none; NaN where a source does not
know. A search is never given NaN: `collage_dsl.cost.sources` asks the next source.
"""


@dataclass(frozen=True, slots=True)
class Variant:
    """
    One algorithm of a backend for a kernel, and what the kernel costs with it.

    `error` is the largest difference of its results from those of another implementation, relative
    to the largest result, on random data; None for the first variant, and where it is not known.
    `name` is empty for the only algorithm of a backend.
    """

    name: str
    cost: Cost
    error: float | None = None


def cheapest(variants: Sequence[Variant], margin: float = 0.0) -> Variant:
    """
    The first of the variants that cost the least, or at most the part `margin` more; the first of
    all if none can run.
    """
    costs = {k: v.cost for k, v in enumerate(variants) if not isinstance(v.cost, Infeasible)}
    most = (1 + margin) * min(costs.values(), default=0.0)
    return variants[next((index for index, cost in costs.items() if cost <= most), 0)]


CostFunction = Callable[[CandidateKernel], Cost]


@dataclass(frozen=True, slots=True)
class Copies:
    """
    What it takes to copy a tensor from one device to another: `latency` seconds, and the time of
    its bytes at `bandwidth` bytes a second.

        collage.Copies(latency=1e-5, bandwidth=12e9)(4096)
    """

    latency: float
    bandwidth: float

    def __post_init__(self) -> None:
        if not all(isinstance(each, Real) for each in (self.latency, self.bandwidth)):
            raise TypeError("`latency` and `bandwidth` of `Copies` must be numbers")
        if not (self.latency >= 0 and self.bandwidth > 0):
            raise ValueError("a copy takes 0 seconds or more, at more than 0 bytes a second")

    def __call__(self, size: int) -> float:
        """The seconds that a copy of `size` bytes takes."""
        return self.latency + size / self.bandwidth
