"""Call a search strategy by its name."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from collage_dsl.search.auto import auto
from collage_dsl.search.beam import beam
from collage_dsl.search.dijkstra import dijkstra
from collage_dsl.search.exhaustive import exhaustive
from collage_dsl.search.milp import milp
from collage_dsl.search.plan import Plan, Problem

Strategy = Literal["auto", "dijkstra", "milp", "beam", "exhaustive"]

STRATEGIES: Mapping[Strategy, Callable[..., Plan]] = {
    "auto": auto,
    "dijkstra": dijkstra,
    "milp": milp,
    "beam": beam,
    "exhaustive": exhaustive,
}
"""docs/search.md describes each strategy."""


def search(problem: Problem, strategy: Strategy = "auto", **options: Any) -> Plan:
    """
    A plan by `strategy`, with the options of that strategy; `plan.record` says how it was found.

        search(problem, "beam", width=50)

    Raises `NoPlanError` if no plan exists, and ValueError if the strategy does not exist.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"no search strategy is named `{strategy}`: {', '.join(STRATEGIES)}")
    return STRATEGIES[strategy](problem, **options)
