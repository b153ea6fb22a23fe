"""
A search that sees what merging saves: touching kernels of a target are regions with prices of their
own, for targets that say `after max_coalesce()`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import fsum, inf, isinf
from typing import NamedTuple

from collage_dsl.cost import Cost, CostFunction, Infeasible
from collage_dsl.graph import CandidateKernel, Graph
from collage_dsl.search.auto import auto
from collage_dsl.search.coalesce import MayMerge, coalesce, touching
from collage_dsl.search.execution_order import in_execution_order
from collage_dsl.search.hints import NO_HINTS, Hints
from collage_dsl.search.partial import LEFT_ALONE, as_far_as_possible
from collage_dsl.search.plan import NoPlanError, Plan, PlannedKernel
from collage_dsl.search.problem import SECOND, Problem
from collage_dsl.search.reporter import NO_REPORTER, Reporter
from collage_dsl.search.searches import Estimate, Estimates, Kernels, Searches
from collage_dsl.search.state_graph import TooManyStatesError
from collage_dsl.search.tally import Tally

Solve = Callable[[Problem], Plan]
"""A search, such as `milp`."""

Targets = frozenset[str]

_LESS = 1 - 1e-9
"""A promise counts as less only by more than sums of floating-point numbers err."""

_ROUNDS = 12
"""How often regions are tried for some targets."""

_MOST = 4
"""For more targets than this, only each alone, each two, and all together propose regions."""


class _Share(NamedTuple):
    """
    The part of a call in the cost of its region: each kernel costs less by what is `saved` for each
    of its calls, and of the rest a part `stays`. The region costs its `overhead` besides, in
    seconds.
    """

    overhead: float
    saved: float
    stays: float


@dataclass(frozen=True, slots=True)
class _Cut:
    """The estimate of a kernel that cuts regions, which costs so many seconds besides."""

    seconds: float

    def __call__(self, candidate: CandidateKernel, cost: float) -> float:
        return cost + self.seconds


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """
    The estimate of a kernel as a part of a region, by the shares of its calls. The `large` kernels
    are regions that rules propose.
    """

    shares: Mapping[int, _Share]
    large: Collection[CandidateKernel]

    def __call__(self, candidate: CandidateKernel, cost: float) -> float:
        if candidate in self.large:
            return cost
        shares = self.shares
        found = [shares[index] for index in candidate.call_indexes if index in shares]
        if not found:
            return cost
        return max(0.0, cost - fsum(share.saved for share in found)) * found[0].stays


@dataclass(frozen=True, slots=True, eq=False)
class _Without:
    """Kernels that are left out of a search."""

    large: Collection[CandidateKernel]

    def __call__(self, candidate: CandidateKernel, cost: float) -> float:
        return inf if candidate in self.large else cost


class Regions:
    """
    The plans of candidates `found` and of regions, which touching kernels of a target become.

    `may_merge` says for each target that merges its kernels which regions it may have. A region is
    proposed, and priced, where it could win. For one target these are the touching kernels of its
    cheapest plan. For several targets the search is repeated with estimates: the price of a region
    is divided among the kernels that it was made of, and a kernel of another target that cuts
    regions costs what cuts have turned out to cost besides. Where such a
    plan promises to be cheaper than all known ones, touching kernels in it are priced as regions.
    This is column generation with estimated costs.

    Regions for some targets are also proposed for more targets, of which these are a part. So where
    a search finds a cheapest plan, it does not cost more for more targets.
    """

    def __init__(
        self,
        graph: Graph,
        found: Iterable[CandidateKernel],
        cost: CostFunction,
        may_merge: Mapping[str, MayMerge],
        hints: Hints = NO_HINTS,
        reporter: Reporter = NO_REPORTER,
    ) -> None:
        self.graph = graph
        self.by_target: dict[str, list[CandidateKernel]] = {}
        found = tuple(found)
        for candidate in dict.fromkeys(found):
            self.by_target.setdefault(candidate.target, []).append(candidate)
        self.may_merge = {name: may for name, may in may_merge.items() if name in self.by_target}
        self._prices = Problem(graph, found, cost, hints, reporter=reporter)
        self._proposed = frozenset(found)
        self._found: dict[Targets, Kernels] = {}
        self._explored: dict[Targets, Kernels] = {}
        self._searches: dict[Targets, Searches | None] = {}
        self._by_other: set[Targets] = set()
        """Those for which `auto` had to be used."""
        self._shares: dict[str, dict[int, _Share]] = {}
        self._large: dict[str, set[CandidateKernel]] = {}
        self._part: dict[str, _Part] = {}

    def plan(self, targets: Collection[str] | None = None, solve: Solve = auto) -> Plan:
        """
        The plan that `solve` finds among the kernels and regions of some targets, or of all. Raises
        what `solve` raises.
        """
        wanted = self.by_target if targets is None else targets
        chosen = frozenset(self.by_target).intersection(wanted)
        regions = self._regions(chosen)
        problem = self._prices.of([*self._parts(chosen), *regions])
        may_search = solve is auto and (problem.has_bounds or chosen in self._found)
        searches = self._searches_of(chosen) if may_search else None
        if searches and problem.has_bounds:  # Costs may have become known since the last search.
            self._solve(chosen, regions)
        found = self._found.get(chosen)
        if not searches or not found or chosen in self._by_other:
            return solve(problem)
        because = "regions were searched for" if regions else "lower bounds are known"
        tally = Tally(problem, "dijkstra", because)
        tally.explored(searches.states)
        return tally.plan(found)

    def priced(self) -> Problem:
        """The problem of all kernels and regions whose costs were asked for."""
        return self._prices.of(self._prices.priced)

    def _parts(self, targets: Targets) -> Iterator[CandidateKernel]:
        """What rules propose for `targets`."""
        return (each for name, found in self.by_target.items() if name in targets for each in found)

    def _regions(self, targets: Targets) -> Kernels:
        """The regions that are proposed where only `targets` run kernels."""
        if targets.isdisjoint(self.may_merge):
            return ()
        if targets not in self._explored:
            self._searches_of(targets)  # before those for fewer targets, which are a part of it
            fewer = [each for some in _fewer(targets) for each in self._regions(some)]
            self._explored[targets] = tuple(self._grown(targets, dict.fromkeys(fewer)))
        return self._explored[targets]

    def _grown(
        self, targets: Targets, regions: dict[CandidateKernel, None]
    ) -> dict[CandidateKernel, None]:
        """`regions`, and those found for `targets`."""

        def add(merged: Plan) -> bool:
            count = len(regions)
            every = (each for each in merged.candidates if each.target in self.may_merge)
            regions.update((each, None) for each in every if each not in self._proposed)
            return len(regions) > count

        if len(targets) == 1:
            add(self._alone(targets))
            self._solve(targets, regions)
            return regions
        known = (self._cost_of(kernels) for some, kernels in self._found.items() if some < targets)
        for merged in self._promising(targets, regions, min(known, default=inf)):
            add(merged)
        for _ in range(_ROUNDS):
            cheapest = self._solve(targets, regions)
            if not cheapest or not add(self._merged(cheapest)):
                return regions
        self._solve(targets, regions)
        return regions

    def _alone(self, targets: Targets) -> Plan:
        """The cheapest kernels of one target, merged. What that saves is divided among them."""
        (target,) = targets
        kernels = self._cheapest(targets)
        merged = self._merged(kernels)
        alone = (each for each in merged.candidates if each in self._proposed)
        large = {each for each in alone if each.calls.bit_count() > 1}
        if large and len(self.by_target[target]) > len(large):
            kernels = self._cheapest(targets, (), {target: _Without(large)})
            self._large[target] = large
        self._divide(kernels, merged)
        shares = self._shares.get(target, {})
        self._part[target] = _Part(shares, self._large.get(target, ()))
        return merged

    def _solve(self, targets: Targets, regions: Iterable[CandidateKernel]) -> Kernels | None:
        """The cheapest kernels with `regions`, if they cover the graph; kept as the plan."""
        kernels = self._cheapest(targets, regions)
        if any(each.toolchain == LEFT_ALONE for each in kernels):
            return None
        self._found[targets] = kernels
        return kernels

    def _promising(
        self, targets: Targets, regions: Mapping[CandidateKernel, None], least: float
    ) -> Iterator[Plan]:
        """
        Merged plans, of which each but the first promised to be cheaper than those before, and than
        `least`. What a plan costs above its promise is shared among its cuts.
        """
        kernels, promise = self._cheapest(targets), inf
        cut, tried = 0.0, {frozenset(kernels)}
        for _ in range(_ROUNDS):
            merged = self._merged(kernels)
            cut += max(0.0, merged.cost - promise) / max(1, self._cuts(kernels))
            least = min(least, merged.cost)
            yield merged
            estimates = self._estimates(targets, cut)
            kernels = self._cheapest(targets, regions, estimates)
            promise = self._promised(kernels, estimates) + self._overhead(kernels)
            if promise >= least * _LESS or frozenset(kernels) in tried:
                return
            tried.add(frozenset(kernels))

    def _cheapest(
        self,
        targets: Targets,
        regions: Iterable[CandidateKernel] = (),
        estimates: Estimates | None = None,
    ) -> Kernels:
        """The cheapest kernels that leave as few calls alone as possible, by estimated costs."""
        regions = tuple(regions)
        try:
            if searches := self._searches_of(targets):
                return searches.cheapest(targets, regions, estimates)
        except TooManyStatesError:
            pass
        return self._by_auto(targets, regions, estimates or {})

    def _searches_of(self, targets: Targets) -> Searches | None:
        """Searches for `targets`, and perhaps for more; None if they would have too many states."""
        for some, searches in self._searches.items():
            if searches and targets <= some:
                return searches
        if targets not in self._searches:
            problem = self._prices
            if targets < frozenset(self.by_target):
                problem = self._prices.of(self._parts(targets))
            try:
                self._searches[targets] = Searches(problem)
            except TooManyStatesError:
                self._searches[targets] = None
        return self._searches[targets]

    def _by_auto(self, targets: Targets, regions: Kernels, estimates: Estimates) -> Kernels:
        """The same by `auto`, if there are too many states."""
        self._by_other.add(targets)
        prices = self._prices

        def estimated(candidate: CandidateKernel, cost: float) -> float:
            estimate = estimates.get(candidate.target)
            if estimate is None or candidate not in self._proposed:
                return cost
            return estimate(candidate, cost)

        def cost(candidate: CandidateKernel) -> Cost:
            known = prices.cost(candidate)
            if isinstance(known, Infeasible):
                return known
            expected = estimated(candidate, known)
            return Infeasible("left out") if isinf(expected) else expected

        def least(candidate: CandidateKernel) -> float:
            expected = estimated(candidate, prices.bound(candidate) / SECOND)
            return 0.0 if isinf(expected) else expected

        candidates = [*self._parts(targets), *regions]
        problem = Problem(
            self.graph,
            candidates,
            cost,
            Hints(
                least if prices.has_bounds else None,
                predicts=prices.predicts and not estimates,
                ahead=prices.ask,
            ),
            known={each: cost(each) for each in candidates if prices.is_asked(each)},
            places=prices.places,
        )
        try:
            return auto(problem).candidates
        except NoPlanError:
            return as_far_as_possible(problem).candidates

    def _estimates(self, targets: Targets, cut: float) -> dict[str, Estimate]:
        """What kernels are expected to cost in a plan with regions."""
        merging = self._part
        return {name: merging[name] if name in merging else _Cut(cut) for name in targets}

    def _promised(self, kernels: Kernels, estimates: Estimates) -> float:
        """What kernels are expected to cost together."""
        costs = ((each, self._seconds(each)) for each in kernels)
        return fsum(
            estimates[each.target](each, cost) if each in self._proposed else cost
            for each, cost in costs
        )

    def _overhead(self, kernels: Kernels) -> float:
        """What merging does not save, since each target that merges has at least one region."""
        found: dict[str, float] = {}
        for each in kernels:
            shares = self._shares.get(each.target, {})
            if shares and each in self._proposed and each not in self._large.get(each.target, ()):
                share = shares.get(each.call_indexes[0])
                overhead = share.overhead if share else 0.0
                found[each.target] = min(overhead, found.get(each.target, inf))
        return fsum(found.values())

    def _cuts(self, kernels: Kernels) -> int:
        return sum(each.target not in self.may_merge for each in kernels)

    def _seconds(self, candidate: CandidateKernel) -> float:
        """The known cost of a kernel alone; 0 for a call that is left alone."""
        cost = self._prices.priced.get(candidate, 0.0)
        assert not isinstance(cost, Infeasible), cost.reason
        return cost

    def _cost_of(self, kernels: Kernels) -> float:
        return fsum(map(self._seconds, kernels))

    def _merged(self, kernels: Kernels) -> Plan:
        """The plan of `kernels`, with those that touch merged."""
        merging = [each for each in kernels if each.target in self.may_merge]
        if not touching(self.graph, merging):
            return self._planned(kernels)

        def may_merge(kernel: CandidateKernel) -> bool:
            may = self.may_merge.get(kernel.target)
            return may is not None and may(kernel)

        ordered = in_execution_order(self.graph, kernels)
        return coalesce(self._planned(ordered), self._prices.cost, may_merge)

    def _planned(self, kernels: Kernels) -> Plan:
        planned = (PlannedKernel(each, self._seconds(each)) for each in kernels)
        return Plan(self.graph, tuple(planned))

    def _divide(self, kernels: Kernels, merged: Plan) -> None:
        """
        Divide the cost of each kernel of `merged` among those of `kernels` that are inside it, and
        the calls of these. What merging saves is first taken from all kernels alike, as launches
        are, then in proportion.
        """
        owner = {
            index: kernel
            for kernel in merged.kernels
            for index in kernel.candidate.sub_graph.indexes
        }
        parts: dict[CandidateKernel, list[CandidateKernel]] = {}
        for each in kernels:
            whole = owner.get(each.sub_graph.indexes[0])
            if whole is not None and each.target == whole.target:
                parts.setdefault(whole.candidate, []).append(each)
        for kernel in merged.kernels:
            inside = parts.get(kernel.candidate, [])
            if len(inside) > 1:
                costs = [self._seconds(each) for each in inside]
                saved = (sum(costs) - kernel.cost) / (len(costs) - 1)
                overhead = max(0.0, min(saved, *costs))
                rest = sum(costs) - overhead * len(costs)
                stays = max(0.0, kernel.cost - overhead) / rest if rest else 1.0
                shares = self._shares.setdefault(kernel.target, {})
                for each in inside:
                    count = each.calls.bit_count()
                    share = _Share(overhead, overhead / count, stays)
                    shares.update(dict.fromkeys(each.call_indexes, share))


def _fewer(targets: Targets) -> Iterator[Targets]:
    """Some of `targets`, so that each smaller choice is one of those, or a part of one."""
    sizes = (len(targets) - 1,) if len(targets) <= _MOST else (2,)
    for size in sizes:
        yield from map(frozenset, combinations(sorted(targets), size))
