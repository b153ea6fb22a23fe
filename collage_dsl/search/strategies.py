"""Call a search strategy: a function, or the name of one that we or an installed package have."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from collage_dsl.cost import Infeasible
from collage_dsl.declared import declared, described, loaded, unknown, without_faults
from collage_dsl.graph import CandidateKernel, covered, members
from collage_dsl.search.auto import auto
from collage_dsl.search.beam import beam
from collage_dsl.search.dijkstra import dijkstra
from collage_dsl.search.execution_order import CyclicPlanError, is_acyclic
from collage_dsl.search.exhaustive import exhaustive
from collage_dsl.search.milp import milp
from collage_dsl.search.moves import Moves
from collage_dsl.search.plan import NoPlanError, Plan
from collage_dsl.search.problem import InfeasibleChoiceError, Problem
from collage_dsl.search.pruning import least_by_call, usable
from collage_dsl.search.tally import Tally

Strategy = str | Callable[..., Plan]
"""A function from a `Problem` to a `Plan`, or the name of one."""

STRATEGIES: Mapping[str, Callable[..., Plan]] = {
    "auto": auto,
    "dijkstra": dijkstra,
    "milp": milp,
    "beam": beam,
    "exhaustive": exhaustive,
}
"""docs/search.md describes each strategy."""

GROUP = "collage_dsl.strategies"
"""The group of entry points in which packages declare strategies, by name."""


class UnknownStrategyError(ValueError):
    """No search strategy has the name that is given."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name, self.known = name, tuple(known)
        super().__init__(name, self.known)

    def __str__(self) -> str:
        return unknown("search strategy", self.name, self.known)


class StrategyError(Exception):
    """A strategy of a package cannot be used, or has answered with no plan of its problem."""


def strategy_names() -> tuple[str, ...]:
    """The names of our strategies, then those that installed packages declare."""
    return (*STRATEGIES, *sorted(declared(GROUP).keys() - STRATEGIES.keys()))


def find_strategy(name: str) -> Callable[..., Plan]:
    """
    The strategy named `name`: one of ours, or else one that an installed package declares. Raises
    `UnknownStrategyError`, and `StrategyError` if that one is no function.
    """
    if name in STRATEGIES:
        return STRATEGIES[name]
    found = declared(GROUP)
    if name not in found:
        raise UnknownStrategyError(name, strategy_names())
    strategy = loaded("strategy", found[name], StrategyError)
    where = described("strategy", found[name])
    if not callable(strategy):
        raise StrategyError(f"{where} is no function: {strategy!r}")

    def searched(problem: Problem, **options: Any) -> Plan:
        plan: Plan = without_faults(
            lambda: strategy(problem, **options), f"{where} has failed", StrategyError
        )
        return plan

    return searched


def search(problem: Problem, strategy: Strategy = "auto", **options: Any) -> Plan:
    """
    A plan by `strategy`, with the options of that strategy; `plan.record` says how it was found.

        search(problem, "beam", width=50)
        search(problem, lambda problem: problem.plan(problem.candidates))

    Raises `NoPlanError` if no plan exists, `UnknownStrategyError` if no strategy has that name, and
    `StrategyError` if one that is not ours answers with what is no plan.
    """
    found = find_strategy(strategy) if isinstance(strategy, str) else strategy
    if found in STRATEGIES.values():
        return found(problem, **options)
    name = strategy if isinstance(strategy, str) else getattr(found, "__name__", "a callable")
    graph = problem.graph
    if lacking := members(graph.calls & ~covered(problem.candidates)):
        raise NoPlanError([graph.nodes[index].name for index in lacking])
    tally = Tally(problem, name)
    try:
        plan = found(problem, **options)
        fault = _fault(problem, plan)
    except InfeasibleChoiceError as error:
        fault = str(error)
    except CyclicPlanError:
        fault = "two of its kernels have one call, or wait for each other"
    if fault:
        none = problem.no_plan()
        raise none if none.nodes else _wrong(name, fault)
    least = sum(least_by_call(problem, Moves(problem, usable(problem))).values())
    return tally.plan(plan.candidates, least)


def _wrong(name: str, fault: str) -> StrategyError:
    return StrategyError(f"the strategy `{name}` has answered with no plan: {fault}")


def _fault(problem: Problem, plan: object) -> str:
    """Why this is no plan for `problem`; empty if it is one."""
    if not isinstance(plan, Plan):
        return f"it is of type {type(plan).__name__}"
    chosen, graph = plan.candidates, problem.graph
    proposed = frozenset(problem.candidates)
    if foreign := [each for each in chosen if each not in proposed]:
        return f"{_named(foreign[0])} is no candidate"
    for each in chosen:
        if isinstance(cost := problem.cost(each), Infeasible):
            return f"{_named(each)} is infeasible: {cost.reason}"
    taken = 0
    for each in chosen:
        if twice := taken & each.sub_graph.inside:
            return f"two kernels have `{graph.nodes[min(members(twice))].name}`"
        taken |= each.sub_graph.inside
    if left := graph.calls & ~taken:
        return f"no kernel has `{graph.nodes[min(members(left))].name}`"
    if not is_acyclic(graph, chosen):
        return "its kernels wait for each other"
    return ""


def _named(candidate: CandidateKernel) -> str:
    return f"the kernel {candidate.label} of {candidate.target}"
