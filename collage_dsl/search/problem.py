"""The problem that a search solves: a graph, candidates and their costs."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import floor, isfinite

from collage_dsl.cost import Cost, CostError, CostFunction, Infeasible
from collage_dsl.graph import CandidateKernel, Graph, OpSet, covered, first, members
from collage_dsl.search.execution_order import in_execution_order
from collage_dsl.search.hints import NO_HINTS, Hints
from collage_dsl.search.places import Places
from collage_dsl.search.plan import NoPlanError, Plan, PlannedKernel
from collage_dsl.search.prediction import Foresight, Prediction
from collage_dsl.search.reporter import NO_REPORTER, Reporter
from collage_dsl.search.structure import Alike, Structure

SECOND = 10**15
"""
Femtoseconds in a second. Costs are added and compared in whole femtoseconds, so that the order
of adding does not change a sum.
"""

FORESEEN = 0.8
"""The part of its predicted cost that a kernel is assumed to cost at least."""

CLOSE = 0.01
"""
The part by which a plan that is found with predicted costs may exceed the least assumed cost: half
of the usual noise margin.
"""


class InfeasibleChoiceError(Exception):
    """A plan was asked for with a kernel that is infeasible."""


class Problem:
    """
    Cover the operator calls of `graph` with disjoint `candidates` at the least cost.

    `cost` is called at most once for each candidate, and only when a search needs the cost.
    `hints` say what is known of it before. `reporter` is told what a search does. The costs `known`
    were asked for before. `places` are those of another problem for the same graph.
    """

    def __init__(
        self,
        graph: Graph,
        candidates: Iterable[CandidateKernel],
        cost: CostFunction,
        hints: Hints = NO_HINTS,
        *,
        reporter: Reporter = NO_REPORTER,
        known: Mapping[CandidateKernel, Cost] | None = None,
        places: Places | None = None,
    ) -> None:
        self.graph = graph
        self.places = places or Places(graph)
        self.reporter = reporter
        self.candidates = tuple(dict.fromkeys(candidates))
        self.has_bounds = hints.lower_bound is not None
        self.broken_bounds: set[CandidateKernel] = set()
        """The candidates that cost less than their lower bound; if any, no plan is proven."""
        self._cost = cost
        self.hints = hints
        self._known: dict[CandidateKernel, float | Infeasible] = {}
        if known:
            self._known = {each: known[each] for each in self.candidates if each in known}
        self._least: dict[CandidateKernel, int] = {}
        self._structure = Structure(graph)
        prediction = Prediction(graph, self._structure)
        self._foresight = Foresight(prediction, self.candidates, self._known)
        self.predicts = hints.predicts and self.has_bounds

    def of(self, candidates: Iterable[CandidateKernel]) -> "Problem":
        """The same with other candidates. A cost that is asked for in one is known in both."""
        cost, hints = self._cost, self.hints
        other = Problem(
            self.graph, candidates, cost, hints, reporter=self.reporter, places=self.places
        )
        other._known, other._least = self._known, self._least
        other._structure, other._foresight = self._structure, self._foresight
        other.predicts = self.predicts
        other.broken_bounds = self.broken_bounds
        return other

    def proving(self) -> "Problem":
        """The same, but predictions do not bound costs."""
        other = self.of(self.candidates)
        other.predicts = False
        return other

    def cost(self, candidate: CandidateKernel) -> float | Infeasible:
        """Raises `CostError` if the cost function returns no valid seconds and no `Infeasible`."""
        known = self._known.get(candidate)
        if known is None:
            known = self._known[candidate] = self._checked(candidate, self._cost(candidate))
            least = self._least.get(candidate, 0)
            if not isinstance(known, Infeasible) and femtoseconds(known) < least:
                self.broken_bounds.add(candidate)
            self.reporter.priced(candidate, known)
        return known

    def ask(self, candidates: Iterable[CandidateKernel]) -> None:
        """Ask for the costs of several candidates; see `cost`."""
        unknown = [each for each in candidates if each not in self._known]
        if self.hints.ahead:
            self.hints.ahead(unknown)
        for each in unknown:
            self.cost(each)

    def ask_alike(self, candidates: Iterable[CandidateKernel]) -> None:
        """
        Ask for the costs of several candidates. If the problem `predicts`, also of all that do the
        same, which most sources know then: else their predictions are assumed, which are less.
        """
        if not self.predicts:
            self.ask(candidates)
            return
        self.ask(dict.fromkeys(other for each in candidates for other in self._alike.to(each)))

    @cached_property
    def _alike(self) -> Alike:
        return Alike(self._structure, self.candidates)

    def price(self, candidate: CandidateKernel) -> int | None:
        """The cost in whole femtoseconds; None if the candidate is infeasible."""
        cost = self.cost(candidate)
        return None if isinstance(cost, Infeasible) else femtoseconds(cost)

    @property
    def priced(self) -> Mapping[CandidateKernel, Cost]:
        """The candidates whose cost was asked for, with their costs."""
        return self._known

    @property
    def is_informed(self) -> bool:
        """Whether any cost or lower bound is known."""
        return self.has_bounds or bool(self._known)

    def is_asked(self, candidate: CandidateKernel) -> bool:
        """Whether the cost of `candidate` was asked for already."""
        return candidate in self._known

    def foresee(self) -> bool:
        """Predict costs from those that are known now. Says whether any became known since."""
        if self.predicts and self.hints.has and not self._foresight.has_begun:
            self.ask(list(filter(self.hints.has, self._foresight.candidates)))
        return self.has_bounds and self._foresight.renew()

    def foreseen(self, candidate: CandidateKernel) -> int:
        """The cost in femtoseconds that was predicted; 0 if nothing is known of it."""
        return femtoseconds(self._foresight.of(candidate))

    def least(self, candidate: CandidateKernel) -> int:
        """
        What the candidate is assumed to cost at least, in femtoseconds. Does not ask for the cost;
        the candidate may turn out to be infeasible.
        """
        bound = self.bound(candidate)
        return max(bound, floor(FORESEEN * self.foreseen(candidate))) if self.predicts else bound

    def bound(self, candidate: CandidateKernel) -> int:
        """The lower bound in femtoseconds."""
        lower_bound = self.hints.lower_bound
        if lower_bound is None:
            return 0
        known = self._least.get(candidate)
        if known is None:
            bound = self._checked(candidate, lower_bound(candidate), "lower bound")
            assert not isinstance(bound, Infeasible)
            known = self._least[candidate] = floor(bound * SECOND)
        return known

    def estimate(self, candidate: CandidateKernel) -> int | None:
        """The price if it is known, otherwise the lower bound. Does not ask for the cost."""
        return self.price(candidate) if self.is_asked(candidate) else self.least(candidate)

    def _checked(
        self, candidate: CandidateKernel, cost: float | Infeasible, what: str = "cost"
    ) -> float | Infeasible:
        if isinstance(cost, Infeasible) or _is_cost(cost):
            return cost
        raise CostError(
            f"the {what} of {candidate.label} on {candidate.target} is {cost}: a cost is a finite "
            "number of seconds, 0 or more, or Infeasible with a reason"
        )

    def demotion(self, candidate: CandidateKernel) -> int:
        """
        The difference between the highest priority of all candidates and that of `candidate`,
        times the number of its calls.

        It is never negative. The plan with the highest priority has the least sum of demotions,
        because every plan covers the same calls.
        """
        below = self._highest - candidate.toolchain.priority
        return below and candidate.calls.bit_count() * below

    @cached_property
    def order_of_targets(self) -> Mapping[str, int]:
        """The targets of the candidates, numbered in the order in which they first come."""
        targets = dict.fromkeys(each.target for each in self.candidates)
        return {target: number for number, target in enumerate(targets)}

    @cached_property
    def _highest(self) -> int:
        return max((each.toolchain.priority for each in self.candidates), default=0)

    @cached_property
    def starting_at(self) -> dict[int, tuple[tuple[CandidateKernel, OpSet], ...]]:
        """
        The candidates by the rank of their first call, each with the ranks of all nodes inside.
        Larger candidates come first, then the order in which they were proposed.
        """
        starts: dict[int, list[tuple[CandidateKernel, OpSet]]] = {}
        calls = self.places.calls
        for candidate in self.candidates:
            ranks = self.places.ranked(candidate.sub_graph.inside)
            if ranks & calls:
                starts.setdefault(first(ranks & calls), []).append((candidate, ranks))
        return {
            rank: tuple(sorted(found, key=lambda pair: -pair[1].bit_count()))
            for rank, found in starts.items()
        }

    def no_plan(self) -> NoPlanError:
        """The error that names the calls that no feasible candidate covers."""
        feasible = (c for c in self.candidates if not isinstance(self.cost(c), Infeasible))
        missing = members(self.graph.calls & ~covered(feasible))
        return NoPlanError([self.graph.nodes[index].name for index in missing])

    def plan(self, chosen: Sequence[CandidateKernel]) -> Plan:
        """
        The plan of `chosen`, which cover the graph. Raises `InfeasibleChoiceError` if one of them
        is infeasible, and `CyclicPlanError` if they wait for each other.
        """
        kernels = []
        for candidate in in_execution_order(self.graph, chosen):
            cost = self.cost(candidate)
            if isinstance(cost, Infeasible):
                named = f"the kernel {candidate.label} of {candidate.target}"
                raise InfeasibleChoiceError(f"{named} is infeasible: {cost.reason}")
            kernels.append(PlannedKernel(candidate, cost))
        return Plan(self.graph, tuple(kernels))


def femtoseconds(seconds: float) -> int:
    """`seconds` as a whole number of femtoseconds, in which costs are added and compared."""
    return round(seconds * SECOND)


def _is_cost(seconds: float) -> bool:
    """Whether `seconds` is a finite number, 0 or more, and finite in femtoseconds too."""
    try:
        return seconds >= 0 and isfinite(seconds) and isfinite(seconds * SECOND)
    except (TypeError, OverflowError):  # not a number of seconds
        return False
