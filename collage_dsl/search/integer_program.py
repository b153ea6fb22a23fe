"""The cheapest cover as an integer program, solved by HiGHS. Needs scipy."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint
from scipy.optimize import milp as solve
from scipy.sparse import csr_array

from collage_dsl.graph import CandidateKernel, Graph
from collage_dsl.search.columns import Array, Columns, surplus_of, worth_of
from collage_dsl.search.cycles import Passage, shortest_cycle
from collage_dsl.search.plan import Problem
from collage_dsl.search.tally import Tally

_RETRIES = 100
"""So many plans are refused, at most, that only the solver's tolerance finds as cheap."""


class SolverError(Exception):
    """The solver stopped without an answer."""


@dataclass(slots=True)
class Program:
    """
    Which columns to take: every call once, and no ring of kernels that wait for each other.

    Rings are not forbidden before one is found: its passages are then forbidden together.
    """

    graph: Graph
    columns: Columns
    tally: Tally
    rows: list[Any] = field(default_factory=list)
    open: Array = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        self.rows = self.columns.constraints
        self.open = np.ones(len(self.columns.candidates))

    def least(self, objective: Array) -> tuple[int, ...] | None:
        """The columns of least `objective` that form a plan; None where there is no plan."""
        while True:
            taken = self._solved(objective)
            if taken is None:
                return None
            insides = [self.columns.candidates[i].sub_graph.inside for i in taken]
            ring = shortest_cycle(self.graph, insides)
            if not ring:
                return taken
            self.rows.append(self._not_all(ring))

    def at_most(self, objective: Array, value: float) -> None:
        """From now on, `objective` may not exceed `value`."""
        self.rows.append(LinearConstraint(csr_array(objective.reshape(1, -1)), -np.inf, value))

    def refuse(self, taken: Sequence[int]) -> None:
        """From now on, these columns are not all taken."""
        row = np.zeros(len(self.columns.candidates))
        row[list(taken)] = 1
        self.at_most(row, len(taken) - 1)

    def _solved(self, objective: Array) -> tuple[int, ...] | None:
        solved = solve(
            objective,
            integrality=np.ones(len(objective)),
            bounds=Bounds(0, self.open),
            constraints=self.rows,
            options={"mip_rel_gap": 0.0},
        )
        if solved.status == 2:
            return None
        if solved.status != 0 or solved.x is None:
            raise SolverError(f"HiGHS found no cheapest plan: {solved.message}")
        self.tally.explored(int(solved.mip_node_count or 0))
        return tuple(int(i) for i in np.flatnonzero(solved.x > 0.5))

    def _not_all(self, ring: Sequence[Passage]) -> Any:
        """
        Of kernels with one of these passages, at least one less is taken than there are
        passages. One kernel with several of them counts once, and leaves fewer to others.
        """
        passages = [1 << entering | 1 << leaving for entering, leaving in ring]
        row = [
            float(any(each.sub_graph.inside & passage == passage for passage in passages))
            for each in self.columns.candidates
        ]
        return LinearConstraint(csr_array(np.array([row])), -np.inf, len(ring) - 1)


def cheapest(problem: Problem, tally: Tally) -> tuple[CandidateKernel, ...]:
    """
    The candidates of a best plan; `tally` counts nodes of branch and bound. Raises `NoPlanError`.

    Where the problem has lower bounds, they stand in for costs that are not known; those of a
    plan that is best so are then asked for, until that changes nothing.
    """
    while True:
        columns = Columns.of(problem, late=problem.has_bounds)
        chosen = _best(problem, Program(problem.graph, columns, tally))
        unknown = [each for each in chosen if not problem.is_asked(each)]
        if not unknown:
            return chosen
        for each in unknown:
            problem.cost(each)


def _best(problem: Problem, program: Program) -> tuple[CandidateKernel, ...]:
    """
    First the least cost is found, then, among what is left of the plans at that cost, the
    least demotion, then the least number of kernels.
    """
    columns = program.columns
    if not columns.calls:
        return ()
    taken = program.least(columns.scaled)
    if taken is None:
        raise problem.no_plan()
    if all(problem.is_asked(columns.candidates[i]) for i in taken):
        taken = _of_equal_cost(problem, program, taken)
    return tuple(columns.candidates[i] for i in taken)


def _of_equal_cost(problem: Problem, program: Program, taken: tuple[int, ...]) -> tuple[int, ...]:
    """The best of the plans that cost what `taken` does."""
    columns = program.columns
    cost = _price(columns, taken)
    # A plan with a column that is dearer than its worth costs so much more than the bound.
    worth = worth_of(problem, columns)
    slack = cost - sum(worth) + columns.unit
    program.open = (surplus_of(columns, worth) <= slack).astype(float)
    program.at_most(columns.scaled, cost / columns.unit + 1e-6)
    demotions = np.array([float(problem.demotion(each)) for each in columns.candidates])
    for objective in (demotions, np.ones(len(columns.candidates))):
        if objective.any():
            taken = _least_exactly(program, objective, taken)
            program.at_most(objective, float(objective[list(taken)].sum()) + 0.5)
    return taken


def _least_exactly(program: Program, objective: Array, best: tuple[int, ...]) -> tuple[int, ...]:
    """Of the plans that cost no more than `best`, exactly, one with the least `objective`."""
    columns = program.columns
    for _ in range(_RETRIES):
        taken = program.least(objective)
        if taken is None or objective[list(taken)].sum() >= objective[list(best)].sum():
            return best
        if _price(columns, taken) <= _price(columns, best):
            return taken
        program.refuse(taken)
    return best


def _price(columns: Columns, taken: Sequence[int]) -> int:
    return sum(columns.prices[i] for i in taken)
