"""The interface through which a search reports its progress, and the record of a search."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from collage_dsl.cost import Cost
from collage_dsl.graph import CandidateKernel

if TYPE_CHECKING:
    from collage_dsl.search.problem import Problem  # it holds a reporter


@dataclass(frozen=True, slots=True)
class SearchRecord:
    """
    How a plan was found, and how good it is known to be.

    `states` is how many states the strategy explored: sets of covered nodes, whole covers, or
    nodes of branch and bound. `candidates` is how many were proposed, `priced` for how many of
    them a cost was asked for, and `infeasible` how many of the priced ones have no cost. No plan
    costs less than `bound` seconds. If the plan is `proven`, no other plan is better in cost,
    priority and number of kernels (for `milp`, as far as its solver can tell costs apart:
    docs/search.md). If it is `predicted`, none costs less by more than `problem.CLOSE` of the least
    cost, unless a candidate without a price costs less than `problem.FORESEEN` of its prediction.
    """

    strategy: str
    because: str
    proven: bool
    predicted: bool
    bound: float
    states: int
    candidates: int
    priced: int
    infeasible: int
    cost: float
    """The cost of the plan in seconds."""

    @property
    def gap(self) -> float:
        """The part of its cost that a cheaper plan may save at most; 0 if the plan is proven."""
        return max(0.0, 1 - self.bound / self.cost) if self.cost and not self.proven else 0.0

    @property
    def never_priced(self) -> int:
        """For how many candidates no cost was asked for."""
        return self.candidates - self.priced


class Reporter(Protocol):
    """
    A search calls these methods while it works.

    If a search changes to another strategy, as `auto` may do, it calls `started` again with the
    same problem. If it finds no plan, it does not call `ended`.
    """

    def started(self, problem: "Problem", strategy: str, because: str) -> None:
        """A strategy begins to solve `problem`; `because` says why it was chosen."""
        ...

    def explored(self, states: int) -> None:
        """`states` more states were explored (see `SearchRecord`)."""
        ...

    def priced(self, candidate: CandidateKernel, cost: Cost) -> None:
        """The cost of a candidate was asked for: seconds, or why it is infeasible."""
        ...

    def improved(self, cost: float) -> None:
        """A plan was found that costs `cost` seconds, less than all plans before."""
        ...

    def ended(self, record: SearchRecord) -> None:
        """The strategy has found its plan."""
        ...


class NoReporter:
    """A reporter that does nothing. Derive from it, and override the methods that you need."""

    __slots__ = ()

    def started(self, problem: "Problem", strategy: str, because: str) -> None:
        pass

    def explored(self, states: int) -> None:
        pass

    def priced(self, candidate: CandidateKernel, cost: Cost) -> None:
        pass

    def improved(self, cost: float) -> None:
        pass

    def ended(self, record: SearchRecord) -> None:
        pass


NO_REPORTER = NoReporter()
