"""What a search tells while it works, and the record that its plan keeps."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from collage_dsl.cost import Cost
from collage_dsl.graph import CandidateKernel

if TYPE_CHECKING:
    from collage_dsl.search.plan import Problem  # it holds a reporter


@dataclass(frozen=True, slots=True)
class SearchRecord:
    """
    How a plan was found, and what is known of how good it is.

    The strategy explored so many `states`: sets of covered nodes, whole covers, or nodes of
    branch and bound. Of the `candidates` that were proposed, `priced` were asked for their cost;
    of those, `infeasible` have none. No plan costs less than `bound` seconds; where the plan is
    `proven`, none is better in cost, priority and kernels either (by `milp`: as far as its solver
    can tell costs apart, docs/search.md).
    """

    strategy: str
    because: str
    proven: bool
    bound: float
    states: int
    candidates: int
    priced: int
    infeasible: int
    cost: float
    """Of the plan in seconds, before kernels are merged."""

    @property
    def gap(self) -> float:
        """What part of its cost a cheaper plan may save; 0 where there is none."""
        return max(0.0, 1 - self.bound / self.cost) if self.cost and not self.proven else 0.0

    @property
    def never_priced(self) -> int:
        """How many candidates never had to be priced."""
        return self.candidates - self.priced


class Reporter(Protocol):
    """
    Hears what a search does.

    A search that hands over to another strategy, as `auto` may, says `started` again, with the
    same problem. One that finds no plan never says `ended`.
    """

    def started(self, problem: "Problem", strategy: str, because: str) -> None:
        """A strategy begins to solve `problem`; it was chosen `because` of this."""
        ...

    def explored(self, states: int) -> None:
        """So many more states were explored (see `SearchRecord`)."""
        ...

    def priced(self, candidate: CandidateKernel, cost: Cost) -> None:
        """A cost was asked for: seconds, or why the candidate is infeasible."""
        ...

    def improved(self, cost: float) -> None:
        """A plan of `cost` seconds is known, cheaper than those before."""
        ...

    def ended(self, record: SearchRecord) -> None:
        """The strategy has found its plan."""
        ...


class NoReporter:
    """A reporter that hears nothing. Derive from it to hear only some of it."""

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
