"""Choose kernels that cover a graph at the least cost. Sees candidates and costs, never rules."""

from collage_dsl.cost import CostError
from collage_dsl.search.auto import auto
from collage_dsl.search.beam import beam
from collage_dsl.search.breeding import Breeding, Genome
from collage_dsl.search.coalesce import coalesce
from collage_dsl.search.dijkstra import BudgetSpentError, dijkstra
from collage_dsl.search.distinct import distinct
from collage_dsl.search.evolution import Refined, Times, fittest, refine
from collage_dsl.search.exhaustive import exhaustive
from collage_dsl.search.hints import NO_HINTS, Ahead, Has, Hints, LowerBound
from collage_dsl.search.milp import milp
from collage_dsl.search.plan import NoPlanError, Plan, PlannedKernel
from collage_dsl.search.problem import CLOSE, FORESEEN, Problem
from collage_dsl.search.regions import Regions, Solve
from collage_dsl.search.regret import regrets
from collage_dsl.search.reporter import NO_REPORTER, NoReporter, Reporter, SearchRecord
from collage_dsl.search.strategies import (
    STRATEGIES,
    Strategy,
    StrategyError,
    UnknownStrategyError,
    find_strategy,
    search,
    strategy_names,
)

__all__ = [
    "CLOSE",
    "FORESEEN",
    "NO_HINTS",
    "NO_REPORTER",
    "STRATEGIES",
    "Ahead",
    "Breeding",
    "BudgetSpentError",
    "CostError",
    "Genome",
    "Has",
    "Hints",
    "LowerBound",
    "NoPlanError",
    "NoReporter",
    "Plan",
    "PlannedKernel",
    "Problem",
    "Refined",
    "Regions",
    "Reporter",
    "SearchRecord",
    "Solve",
    "Strategy",
    "StrategyError",
    "Times",
    "UnknownStrategyError",
    "auto",
    "beam",
    "coalesce",
    "dijkstra",
    "distinct",
    "exhaustive",
    "find_strategy",
    "fittest",
    "milp",
    "refine",
    "regrets",
    "search",
    "strategy_names",
]
