"""What a kernel costs."""

from collections.abc import Callable
from dataclasses import dataclass

from collage_dsl.graph import CandidateKernel


@dataclass(frozen=True, slots=True)
class Infeasible:
    """A kernel that cannot be built or run, and why in one sentence."""

    reason: str


Cost = float | Infeasible
"""Seconds, finite and not negative, or the reason why there are none."""

CostFunction = Callable[[CandidateKernel], Cost]
