"""Count what a strategy does, and make the record of the search from it."""

from collections.abc import Sequence
from dataclasses import replace

from collage_dsl.cost import Infeasible
from collage_dsl.graph import CandidateKernel
from collage_dsl.search.moves import Moves
from collage_dsl.search.plan import Plan
from collage_dsl.search.problem import SECOND, Problem, femtoseconds
from collage_dsl.search.pruning import least_by_call, usable
from collage_dsl.search.reporter import SearchRecord

ASKED_FOR = "asked for"
"""The reason for a strategy that the user chose."""


class Tally:
    """Counts what a strategy does, and tells the reporter of the problem."""

    def __init__(self, problem: Problem, strategy: str, because: str = ASKED_FOR) -> None:
        self.problem = problem
        self.strategy = strategy
        self.because = because
        self.states = 0
        self.least: int | None = None
        """The cost in femtoseconds of the cheapest plan found so far."""
        problem.reporter.started(problem, strategy, because)

    def explored(self, states: int = 1) -> None:
        """Count `states` more explored states."""
        self.states += states
        self.problem.reporter.explored(states)

    def found(self, cost: int) -> None:
        """Note that a plan of `cost` femtoseconds was found."""
        if self.least is None or cost < self.least:
            self.least = cost
            self.problem.reporter.improved(cost / SECOND)

    def plan(self, chosen: Sequence[CandidateKernel], bound: int | None = None) -> Plan:
        """
        The plan of `chosen`, with its record. No plan costs less than `bound` femtoseconds;
        without a `bound`, no plan is better. Both hold for the bounds that the problem assumes.
        """
        plan = self.problem.plan(chosen)
        self.found(sum(femtoseconds(kernel.cost) for kernel in plan.kernels))
        record = self._record(plan.cost, bound)
        self.problem.reporter.ended(record)
        return replace(plan, record=record)

    def _record(self, cost: float, bound: int | None) -> SearchRecord:
        problem, known = self.problem, self.problem.priced
        priced = [known[each] for each in problem.candidates if each in known]
        is_best = bound is None and not problem.broken_bounds
        predicted = problem.predicts and len(priced) < len(problem.candidates)
        proven = is_best and not predicted
        if predicted:
            sure = problem.proving()
            bound = sum(least_by_call(sure, Moves(sure, usable(sure))).values())
        return SearchRecord(
            self.strategy,
            self.because,
            proven=proven,
            predicted=is_best and predicted,
            bound=cost if proven else min((bound or 0) / SECOND, cost),
            states=self.states,
            candidates=len(problem.candidates),
            priced=len(priced),
            infeasible=sum(isinstance(each, Infeasible) for each in priced),
            cost=cost,
        )
