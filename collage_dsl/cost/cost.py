"""The type of a cost: seconds, or the reason why a kernel cannot run."""

from collections.abc import Callable
from dataclasses import dataclass

from collage_dsl.graph import CandidateKernel


@dataclass(frozen=True, slots=True)
class Infeasible:
    """Why a kernel cannot be built or run, in one sentence."""

    reason: str


Cost = float | Infeasible
"""Seconds, finite and not negative, or the reason why the kernel has no cost."""

CostFunction = Callable[[CandidateKernel], Cost]
