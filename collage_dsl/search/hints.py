"""What a search may know of costs before it asks for them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from collage_dsl.graph import CandidateKernel

LowerBound = Callable[[CandidateKernel], float]
"""The least seconds that a candidate can cost, known without asking for the cost."""

Has = Callable[[CandidateKernel], bool]
"""Whether the cost of a candidate is there already, so that nothing is measured for it."""

Ahead = Callable[[Sequence[CandidateKernel]], None]
"""Told which candidates' costs will be asked for, so that they can be measured together."""


@dataclass(frozen=True, slots=True)
class Hints:
    """
    What a search may know of costs before it asks for them.

    `lower_bound` of a candidate must not be above its cost; with it some strategies need fewer
    costs and find a plan that is just as good. A search that also `predicts` needs fewer still: it
    assumes that no candidate costs less than `problem.FORESEEN` of its `Prediction`. For that, all
    costs are asked for first that the source of costs `has`. `ahead` hears of several candidates
    before their costs are asked for.
    """

    lower_bound: LowerBound | None = None
    predicts: bool = False
    has: Has | None = None
    ahead: Ahead | None = None


NO_HINTS = Hints()
