"""The type of a cost: seconds, or the reason why a kernel cannot run."""

from collections.abc import Callable
from dataclasses import dataclass

from collage_dsl.graph import CandidateKernel


@dataclass(frozen=True, slots=True)
class Infeasible:
    """Why a kernel cannot be built or run, in one sentence."""

    reason: str


class CostError(Exception):
    """A cost function, or a lower bound, gave something that is no cost."""


Cost = float | Infeasible
"""
Seconds, finite and not negative, or the reason why there are none; NaN where a source does not
know. A search is never given NaN: `collage_dsl.cost.sources` asks the next source.
"""

CostFunction = Callable[[CandidateKernel], Cost]
