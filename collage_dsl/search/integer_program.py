"""The integer program of the strategy `milp`, solved by HiGHS. Needs scipy."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint
from scipy.optimize import milp as solve
from scipy.sparse import csr_array

from collage_dsl.graph import CandidateKernel, Graph
from collage_dsl.graph.arrays import Array
from collage_dsl.search.columns import Columns, surplus_of, worth_of
from collage_dsl.search.cycles import Passage, shortest_cycle
from collage_dsl.search.dijkstra import BudgetSpentError
from collage_dsl.search.problem import Problem
from collage_dsl.search.tally import Tally

_SECONDS = 10.0
"""How long a solution with a budget may take: some programs take minutes for their first node."""

_EXACT = 1e12
"""The solver can tell sums of whole numbers up to this one apart; larger ones are scaled to it."""

_DEARER = 10
"""
If a kernel costs more than this many times as much as a whole plan, kernels that cost more than
the plan are left out, and the program is solved again.
"""

_NUMERICAL = 4
"""The status of a solution that numerical trouble ended."""

_RETRIES = 100
"""How many plans are refused at most because only the solver's tolerance makes them as cheap."""


class SolverError(Exception):
    """The solver stopped without an answer."""


@dataclass(slots=True)
class Program:
    """
    Choose columns that cover every call once, with no cycle of kernels that wait for each other.

    A cycle is forbidden only after a solution has it: then its passages are forbidden together.
    """

    graph: Graph
    columns: Columns
    tally: Tally
    budget: int | None = None
    """How many nodes of branch and bound a solution may take."""
    is_limited: bool = False
    """Whether a solution was stopped."""
    bound: float | None = None
    """No solution has a lower objective, where the last one may not be the best."""
    rows: list[Any] = field(default_factory=list)
    open: Array = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        self.rows = self.columns.constraints
        self.open = np.ones(len(self.columns.candidates))

    def least(self, objective: Array) -> tuple[int, ...] | None:
        """
        The columns of a plan with the least `objective`; None if there is no plan. At the end of
        the budget, those of the best plan found, and `bound` is set; or `BudgetSpentError`.
        """
        while True:
            taken = self._solved(objective)
            if taken is None:
                return None
            ring = shortest_cycle(self.graph, [self.columns.candidates[i] for i in taken])
            if not ring:
                return taken
            self.rows.append(self._not_all(ring))

    def at_most(self, objective: Array, value: float) -> None:
        """From now on, `objective` may not exceed `value`."""
        self.rows.append(LinearConstraint(csr_array(objective.reshape(1, -1)), -np.inf, value))

    def refuse(self, taken: Sequence[int]) -> None:
        """From now on, these columns may not all be taken together."""
        row = np.zeros(len(self.columns.candidates))
        row[list(taken)] = 1
        self.at_most(row, len(taken) - 1)

    def _solved(self, objective: Array) -> tuple[int, ...] | None:
        solved = self._answer(objective)
        if solved.status == _NUMERICAL:  # rarely, for numbers as large as `_EXACT`
            solved = self._answer(objective, presolve=False)
        if solved.status == 2:
            return None
        is_limited = self.budget is not None and solved.status == 1
        self.is_limited |= is_limited
        if is_limited and solved.x is None:
            raise BudgetSpentError(f"{self.budget} nodes and {_SECONDS:g} s were not enough")
        if solved.x is None or not (is_limited or solved.status == 0):
            raise SolverError(f"HiGHS found no cheapest plan: {solved.message}")
        # Minus infinity, if the solver was stopped before it had a bound.
        self.bound = max(0.0, float(solved.mip_dual_bound)) if is_limited else None
        self.tally.explored(int(solved.mip_node_count or 0))
        return tuple(int(i) for i in np.flatnonzero(solved.x > 0.5))

    def _answer(self, objective: Array, *, presolve: bool = True) -> Any:
        return solve(
            objective,
            integrality=np.ones(len(objective)),
            bounds=Bounds(0, self.open),
            constraints=self.rows,
            options={"mip_rel_gap": 0.0, "presolve": presolve} | self._limits,
        )

    @property
    def _limits(self) -> dict[str, float]:
        if self.budget is None:
            return {}
        return {"node_limit": self.budget, "time_limit": _SECONDS}

    def _not_all(self, ring: Sequence[Passage]) -> Any:
        """
        Fewer kernels with one of these passages may be taken than there are passages. A kernel
        with several of them counts once.
        """
        passages = [1 << entering | 1 << leaving for entering, leaving in ring]
        row = [
            float(any(each.sub_graph.inside & passage == passage for passage in passages))
            for each in self.columns.candidates
        ]
        return LinearConstraint(csr_array(np.array([row])), -np.inf, len(ring) - 1)


def cheapest(
    problem: Problem, tally: Tally, budget: int | None
) -> tuple[tuple[CandidateKernel, ...], int | None]:
    """
    The candidates of a best plan; `tally` counts nodes of branch and bound. Raises `NoPlanError`.
    If a solution takes more than `budget` nodes, or 10 s, the plan may not be the best: no plan
    then costs less than so many femtoseconds. Raises `BudgetSpentError` if no plan was found.

    If the problem has lower bounds, they are used for costs that are not known. Then the unknown
    costs of the best plan are asked for, and the program is solved again, until all costs of the
    best plan are known.
    """
    while True:
        problem.foresee()
        columns = Columns.of(problem, late=problem.has_bounds)
        program = Program(problem.graph, columns, tally, budget)
        chosen, bound = _best(problem, program)
        unknown = [each for each in chosen if not problem.is_asked(each)]
        if not unknown:
            return chosen, bound
        problem.ask_alike(unknown)


def _best(problem: Problem, program: Program) -> tuple[tuple[CandidateKernel, ...], int | None]:
    """
    The columns with the least cost; among the plans with that cost, those with the least
    demotion, then with the fewest kernels. A lower bound in femtoseconds if they may not be these.
    """
    columns = program.columns
    if not columns.calls:
        return (), None
    taken = program.least(columns.scaled)
    if taken is None:
        raise problem.no_plan()
    bound = None if program.bound is None else int(program.bound * columns.unit)
    if all(problem.is_asked(columns.candidates[i]) for i in taken):
        cost = _price(columns, taken)
        if max(columns.prices) > _DEARER * cost:
            # The solver is only as precise as the cost of the most expensive kernel allows.
            fewer = replace(program, columns=columns.up_to(cost), bound=None, is_limited=False)
            return _best(problem, fewer)
        if bound is None:
            program.is_limited = False
            taken = _of_equal_cost(problem, program, taken)
            if program.is_limited:
                bound = _price(columns, taken)
    return tuple(columns.candidates[i] for i in taken), bound


def _of_equal_cost(problem: Problem, program: Program, taken: tuple[int, ...]) -> tuple[int, ...]:
    """The best of the plans with the same cost as `taken`."""
    columns = program.columns
    cost = _price(columns, taken)
    # A plan with a column costs at least the surplus of that column more than the bound.
    worth = worth_of(problem, columns)
    slack = cost - sum(worth) + columns.unit
    program.open = (surplus_of(columns, worth) <= slack).astype(float)
    program.at_most(columns.scaled, cost / columns.unit + 1e-6)
    decided: list[Sequence[int]] = [columns.prices]
    demotions = [problem.demotion(each) for each in columns.candidates]
    for values in (demotions, [1] * len(columns.candidates)):
        if any(values):
            taken = _least_exactly(program, values, taken, decided)
            decided.append(values)
    return taken


def _least_exactly(
    program: Program, values: Sequence[int], best: tuple[int, ...], decided: Sequence[Sequence[int]]
) -> tuple[int, ...]:
    """
    A plan with the least sum of `values` whose exact sums of what is `decided` are no more than
    those of `best`; the program keeps to that least sum. At the end of the budget, the best one
    that was found.
    """
    shared = gcd(*values)
    unit = max(max(values) / _EXACT, shared)
    objective = np.array([value / unit for value in values])
    found = best
    for _ in range(_RETRIES):
        try:
            taken = program.least(objective)
        except BudgetSpentError:
            break
        if taken is None or _sum(values, taken) >= _sum(values, best):
            break
        if all(_sum(each, taken) <= _sum(each, best) for each in decided):
            found = taken
            break
        program.refuse(taken)
    most = _sum(values, found) / unit
    # More than the rounding of a sum, and, where sums are exact, less than the least difference.
    program.at_most(objective, most + max(0.5 * shared / unit, 1e-12 * most, 1e-6))
    return found


def _sum(values: Sequence[int], taken: Sequence[int]) -> int:
    return sum(values[i] for i in taken)


def _price(columns: Columns, taken: Sequence[int]) -> int:
    return _sum(columns.prices, taken)
