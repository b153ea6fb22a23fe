"""The strategies by name, behind one function."""

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
"""What each does: docs/search.md."""


def search(problem: Problem, strategy: Strategy = "auto", **options: Any) -> Plan:
    """
    A plan by `strategy`, with its own options; `record` of the plan says how it was found.

        search(problem, "beam", width=50)

    Raises `NoPlanError` where no plan exists, and ValueError for a strategy that does not.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"no search strategy is named `{strategy}`: {', '.join(STRATEGIES)}")
    return STRATEGIES[strategy](problem, **options)
