"""The choice of a cheapest cover. Sees candidates and costs, never rules."""

from collage_dsl.search.coalesce import coalesce
from collage_dsl.search.dijkstra import dijkstra
from collage_dsl.search.exhaustive import exhaustive
from collage_dsl.search.plan import CostError, NoPlanError, Plan, PlannedKernel, Problem

__all__ = [
    "CostError",
    "NoPlanError",
    "Plan",
    "PlannedKernel",
    "Problem",
    "coalesce",
    "dijkstra",
    "exhaustive",
]
