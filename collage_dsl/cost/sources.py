"""Several sources of costs, of which the first that knows a cost gives it."""

from collections.abc import Sequence
from math import isnan, nan
from numbers import Real
from pathlib import Path

from collage_dsl.cost.cost import Cost, CostError, CostFunction
from collage_dsl.cost.table import CostTable
from collage_dsl.graph import CandidateKernel

CostSource = CostFunction | str | Path
"""A function, which answers NaN where it does not know a cost; or the file of a cost table."""

CostSources = CostSource | Sequence[CostSource]
"""One source, or several that are asked in turn."""


def first_known(given: CostSources) -> CostFunction:
    """
    The first answer of the sources that is not NaN; NaN where no source knows a cost.

        first_known([recorded, "costs.yaml"])

    A cost table that is given by itself makes a kernel infeasible that it has no price for. As
    one of several it does not know the cost of that kernel, and the next source is asked. Raises
    `TableError` where a file is no cost table.
    """
    if isinstance(given, str | Path):
        given = CostTable.load(given)
    if isinstance(given, CostTable):
        return given.__call__  # a function, which no list takes for a table again
    if callable(given):
        return given
    sources = [_one_of_several(each) for each in given]

    def cost(candidate: CandidateKernel) -> Cost:
        for source in sources:
            answer = source(candidate)
            if not _is_unknown(answer):
                return answer
        return nan

    return cost


def always_known(given: CostSources) -> CostFunction:
    """As `first_known`, but raises `CostError` where no source knows a cost."""
    first = first_known(given)

    def cost(candidate: CandidateKernel) -> Cost:
        answer = first(candidate)
        if _is_unknown(answer):
            raise CostError(f"no source knows the cost of {candidate.label} on {candidate.target}")
        return answer

    return cost


def _one_of_several(given: CostSource) -> CostFunction:
    source = CostTable.load(given) if isinstance(given, str | Path) else given
    return source.known if isinstance(source, CostTable) else source


_NUMBERS = (float, Real)
"""Most costs are of the first, which is quicker to find out; those of numpy are of the second."""


def _is_unknown(cost: Cost) -> bool:
    return isinstance(cost, _NUMBERS) and isnan(cost)
