"""The covering problem as a matrix for the solver, and its relaxation. Needs scipy."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import LinearConstraint, linprog
from scipy.sparse import csr_array

from collage_dsl.graph import CandidateKernel, OpSet, members
from collage_dsl.graph.arrays import Array
from collage_dsl.search.problem import SECOND, Problem
from collage_dsl.search.pruning import undominated, usable

SCALE = 1e6
"""The highest price is scaled to this number, because the solver's tolerance is about 1e-6."""


@dataclass(frozen=True, slots=True)
class Columns:
    """
    The feasible candidates that a plan may need. Each is a column that is taken or not taken.

    `prices` are in femtoseconds; the solver counts them in units of `unit` femtoseconds. Every
    call is covered once (`once`), every tuple and projection at most once (`at_most_once`).
    """

    candidates: tuple[CandidateKernel, ...]
    prices: tuple[int, ...]
    unit: float
    calls: tuple[int, ...]
    free: tuple[int, ...]
    once: Any
    at_most_once: Any

    @classmethod
    def of(cls, problem: Problem, *, late: bool = False) -> "Columns":
        """
        Asks for every cost. If `late`, asks for no cost, and uses the lower bound of each cost
        that is not known. Raises `NoPlanError` if a call has no feasible candidate.
        """
        price = problem.estimate if late else problem.price
        candidates = tuple(undominated(usable(problem), price))
        insides = [each.sub_graph.inside for each in candidates]
        prices = tuple(price(each) or 0 for each in candidates)
        covered = shared = 0
        for inside in insides:
            shared |= covered & inside
            covered |= inside
        if problem.graph.calls & ~covered:
            raise problem.no_plan()
        calls = tuple(members(problem.graph.calls))
        free = tuple(members(shared & ~problem.graph.calls))
        return cls(
            candidates,
            prices,
            _unit(prices),
            calls,
            free,
            _rows(insides, calls),
            _rows(insides, free),
        )

    def up_to(self, price: int) -> "Columns":
        """Those that cost at most `price`, of which some are a plan; in smaller units."""
        kept = [i for i, each in enumerate(self.prices) if each <= price]
        prices = tuple(self.prices[i] for i in kept)
        return replace(
            self,
            candidates=tuple(self.candidates[i] for i in kept),
            prices=prices,
            unit=_unit(prices),
            once=self.once[:, kept],
            at_most_once=self.at_most_once[:, kept],
        )

    @property
    def scaled(self) -> Array:
        """The prices in units of `unit`, for the solver."""
        return np.array([price / self.unit for price in self.prices])

    @property
    def constraints(self) -> list[Any]:
        found = [LinearConstraint(self.once, 1, 1)]
        if self.at_most_once.shape[0]:
            found.append(LinearConstraint(self.at_most_once, -np.inf, 1))
        return found


@dataclass(frozen=True, slots=True)
class Relaxation:
    """
    The cheapest cover when parts of kernels may be taken: it costs `bound` femtoseconds, and no
    plan costs less.

    `worth` has for each call, by name, the seconds that it costs to cover this call there (the
    dual values of the linear program). No kernel costs less than the worth of its calls.
    `surplus` has the seconds that each feasible candidate costs above the worth of its calls. A
    plan with the candidate costs at least that much more than the bound.
    """

    bound: int
    worth: Mapping[str, float]
    surplus: Mapping[CandidateKernel, float]


def relaxation(problem: Problem) -> Relaxation:
    """Asks for every cost. Raises `NoPlanError` if even parts of kernels cannot cover the graph."""
    columns = Columns.of(problem)
    if not columns.calls:
        return Relaxation(0, {}, {})
    worth = worth_of(problem, columns)
    by_node = dict(zip((*columns.calls, *columns.free), worth, strict=True))
    surplus = {}
    for each in problem.candidates:
        price = problem.price(each)
        if price is not None:
            inside = members(each.sub_graph.inside)
            surplus[each] = (price - sum(by_node.get(i, 0) for i in inside)) / SECOND
    names = {problem.graph.nodes[i].name: by_node[i] / SECOND for i in columns.calls}
    return Relaxation(int(bound_of(worth)), names, surplus)


def worth_of(problem: Problem, columns: Columns) -> list[float]:
    """
    The worth of each call in femtoseconds, then that of each shared free node, which is never
    above 0. No column costs less than the worth of the nodes that it covers.
    """
    rows = columns.at_most_once
    is_shared = bool(rows.shape[0])
    solved = linprog(
        columns.scaled,
        A_eq=columns.once,
        b_eq=np.ones(len(columns.calls)),
        A_ub=rows if is_shared else None,
        b_ub=np.ones(rows.shape[0]) if is_shared else None,
        method="highs",
    )
    if solved.status == 2:
        raise problem.no_plan()
    assert solved.status == 0, solved.message
    calls = [float(value) * columns.unit for value in solved.eqlin.marginals]
    marginals = solved.ineqlin.marginals if is_shared else []
    free = [min(0.0, float(value) * columns.unit) for value in marginals]
    return [*_not_above(columns, calls, free), *free]


def surplus_of(columns: Columns, worth: Sequence[float]) -> Array:
    """The price of each column above the worth of the nodes that it covers, in femtoseconds."""
    calls = np.array(worth[: len(columns.calls)])
    free = np.array(worth[len(columns.calls) :])
    covered = columns.once.T @ calls
    if len(free):
        covered = covered + columns.at_most_once.T @ free
    surplus: Array = np.array(columns.prices, dtype=float) - covered
    return surplus


def bound_of(worth: Sequence[float]) -> float:
    """
    A lower bound of the cost of every plan: each call is covered once, each free node at most
    once.
    """
    return max(0.0, float(sum(worth)))


def _not_above(columns: Columns, calls: list[float], free: list[float]) -> list[float]:
    """The worth of calls, lowered where the solver's tolerance made it too high."""
    excess = max(0.0, -float(surplus_of(columns, [*calls, *free]).min(initial=0.0)))
    return [value - excess for value in calls]


def _unit(prices: Sequence[int]) -> float:
    """The femtoseconds in one unit of the solver."""
    return max(max(prices, default=0) / SCALE, 1.0)


def _rows(insides: Sequence[OpSet], nodes: Iterable[int]) -> Any:
    """A matrix with a row for each of `nodes`, and a 1 in each column that has the node inside."""
    place = {node: row for row, node in enumerate(nodes)}
    rows, across = [], []
    for column, inside in enumerate(insides):
        for index in members(inside):
            if index in place:
                rows.append(place[index])
                across.append(column)
    shape = (len(place), len(insides))
    return csr_array((np.ones(len(rows)), (rows, across)), shape=shape)
