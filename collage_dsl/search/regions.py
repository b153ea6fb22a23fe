"""
A search that sees what merging saves: touching kernels of a target are regions with prices of their
own, for targets that say `after max_coalesce()`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial as with_arguments
from itertools import combinations
from math import fsum, inf
from typing import NamedTuple

from collage_dsl.cost import Cost, CostFunction, Infeasible
from collage_dsl.graph import CandidateKernel, Graph, OpSet, first, members
from collage_dsl.search.auto import auto
from collage_dsl.search.coalesce import MayMerge, coalesce
from collage_dsl.search.partial import as_far_as_possible
from collage_dsl.search.plan import Ahead, LowerBound, NoPlanError, Plan, PlannedKernel, Problem
from collage_dsl.search.reporter import NO_REPORTER, Reporter

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
        *,
        lower_bound: LowerBound | None = None,
        ahead: Ahead | None = None,
        reporter: Reporter = NO_REPORTER,
    ) -> None:
        self.graph = graph
        self.by_target: dict[str, list[CandidateKernel]] = {}
        for candidate in dict.fromkeys(found):
            self.by_target.setdefault(candidate.target, []).append(candidate)
        self.may_merge = {name: may for name, may in may_merge.items() if name in self.by_target}
        self.lower_bound = lower_bound
        self.ahead = ahead
        self.reporter = reporter
        self._prices = Problem(graph, (), cost)
        self._plans: dict[Targets, Plan] = {}
        self._explored: dict[Targets, tuple[CandidateKernel, ...]] = {}
        self._shares: dict[str, dict[int, _Share]] = {}
        self._large: set[CandidateKernel] = set()

    def plan(self, targets: Collection[str] | None = None, solve: Solve = auto) -> Plan:
        """
        The plan that `solve` finds among the kernels and regions of some targets, or of all. Raises
        what `solve` raises.
        """
        wanted = self.by_target if targets is None else targets
        chosen = frozenset(self.by_target).intersection(wanted)
        candidates = [*self._parts(chosen), *self._regions(chosen)]
        if solve is auto and (found := self._plans.get(chosen)):
            return found
        return solve(self._problem(candidates))

    def priced(self) -> Problem:
        """The problem of all kernels and regions whose costs were asked for."""
        known = self._prices.priced
        places = self._prices.places
        return Problem(self.graph, known, self._prices.cost, known=known, places=places)

    def _problem(self, candidates: Sequence[CandidateKernel]) -> Problem:
        return Problem(
            self.graph,
            candidates,
            self._prices.cost,
            lower_bound=self.lower_bound,
            ahead=self.ahead,
            reporter=self.reporter,
            known=self._prices.priced,
            places=self._prices.places,
        )

    def _cost(self, candidate: CandidateKernel) -> Cost:
        is_new = not self._prices.is_asked(candidate)
        cost = self._prices.cost(candidate)
        if is_new:
            self.reporter.priced(candidate, cost)
        return cost

    def _parts(self, targets: Targets) -> list[CandidateKernel]:
        """What rules propose for `targets`."""
        return [each for name, found in self.by_target.items() if name in targets for each in found]

    def _regions(self, targets: Targets) -> tuple[CandidateKernel, ...]:
        """The regions that are proposed where only `targets` run kernels."""
        if targets.isdisjoint(self.may_merge):
            return ()
        if targets not in self._explored:
            fewer = [each for some in _fewer(targets) for each in self._regions(some)]
            self._explored[targets] = tuple(self._grown(targets, dict.fromkeys(fewer)))
        return self._explored[targets]

    def _grown(
        self, targets: Targets, regions: dict[CandidateKernel, None]
    ) -> dict[CandidateKernel, None]:
        """`regions`, and those found for `targets`."""
        parts = dict.fromkeys(self._parts(targets))

        def add(merged: Plan) -> bool:
            count = len(regions)
            every = (each for each in merged.candidates if each.target in self.may_merge)
            regions.update((each, None) for each in every if each not in parts)
            return len(regions) > count

        if len(targets) == 1:
            plan = self._cheapest([*parts])
            merged = self._merged(plan)
            add(merged)
            alone = (each for each in merged.candidates if each in parts)
            large = {each for each in alone if _calls(each).bit_count() > 1}
            if large and len(parts) > len(large):
                plan = self._cheapest([each for each in parts if each not in large])
                self._large |= large
            self._divide(plan, merged)
            self._solve(targets, [*parts, *regions])
            return regions
        known = (plan.cost for some, plan in self._plans.items() if some < targets)
        for merged in self._promising(parts, regions, min(known, default=inf)):
            add(merged)
        for _ in range(_ROUNDS):
            cheapest = self._solve(targets, [*parts, *regions])
            if not cheapest or not add(self._merged(cheapest)):
                return regions
        self._solve(targets, [*parts, *regions])
        return regions

    def _solve(self, targets: Targets, candidates: Sequence[CandidateKernel]) -> Plan | None:
        """The cheapest plan of `candidates`, if there is any, kept as that of `targets`."""
        try:
            plan = self._plans[targets] = auto(self._problem(candidates))
        except NoPlanError:
            return None
        return plan

    def _promising(
        self,
        parts: Mapping[CandidateKernel, None],
        regions: Mapping[CandidateKernel, None],
        least: float,
    ) -> Iterator[Plan]:
        """
        Merged plans, of which each but the first promised to be cheaper than those before, and than
        `least`. What a plan costs above its promise is shared among its cuts.
        """
        plan, promise = self._cheapest([*parts]), inf
        cut, tried = 0.0, {frozenset(plan.candidates)}
        for _ in range(_ROUNDS):
            merged = self._merged(plan)
            cut += max(0.0, merged.cost - promise) / max(1, self._cuts(plan))
            least = min(least, merged.cost)
            yield merged
            estimate = with_arguments(self._estimate, parts, cut)
            promised = self._cheapest([*parts, *regions], estimate)
            kernels = frozenset(promised.candidates)
            promise = promised.cost + self._overhead(promised, parts)
            if promise >= least * _LESS or kernels in tried:
                return
            tried.add(kernels)
            plan = self._priced(promised)

    def _cheapest(
        self,
        candidates: Sequence[CandidateKernel],
        estimate: Callable[[CandidateKernel, float], float] = lambda candidate, cost: cost,
    ) -> Plan:
        """The cheapest plan that leaves as few calls alone as possible, by estimated costs."""
        bound = self.lower_bound

        def cost(candidate: CandidateKernel) -> Cost:
            known = self._cost(candidate)
            return known if isinstance(known, Infeasible) else estimate(candidate, known)

        least = bound and (lambda each: estimate(each, bound(each)))
        known = {each: cost(each) for each in candidates if each in self._prices.priced}
        problem = Problem(
            self.graph,
            candidates,
            cost,
            lower_bound=least,
            ahead=self.ahead,
            known=known,
            places=self._prices.places,
        )
        try:
            return auto(problem)
        except NoPlanError:
            return as_far_as_possible(problem)

    def _estimate(
        self,
        parts: Mapping[CandidateKernel, None],
        cut: float,
        candidate: CandidateKernel,
        cost: float,
    ) -> float:
        """What a kernel that costs so much alone is expected to cost in a plan with regions."""
        if candidate.target not in self.may_merge:
            return cost + cut
        if candidate not in parts or candidate in self._large:
            return cost
        shares = self._shares.get(candidate.target, {})
        found = [shares[index] for index in members(_calls(candidate)) if index in shares]
        saved = sum(share.saved for share in found)
        return max(0.0, cost - saved) * (found[0].stays if found else 1.0)

    def _overhead(self, plan: Plan, parts: Mapping[CandidateKernel, None]) -> float:
        """What merging does not save, since each target that merges has at least one region."""
        found: dict[str, float] = {}
        for each in plan.candidates:
            shares = self._shares.get(each.target, {})
            if each in parts and each not in self._large and shares:
                share = shares.get(first(_calls(each)))
                overhead = share.overhead if share else 0.0
                found[each.target] = min(overhead, found.get(each.target, inf))
        return fsum(found.values())

    def _cuts(self, plan: Plan) -> int:
        return sum(each.target not in self.may_merge for each in plan.candidates)

    def _priced(self, plan: Plan) -> Plan:
        """`plan` with the costs that kernels have alone."""
        kernels = []
        for kernel in plan.kernels:
            cost = self._prices.priced.get(kernel.candidate, 0.0)
            assert not isinstance(cost, Infeasible), cost.reason
            kernels.append(replace(kernel, cost=cost))
        return replace(plan, kernels=tuple(kernels))

    def _merged(self, plan: Plan) -> Plan:
        def may_merge(kernel: CandidateKernel) -> bool:
            may = self.may_merge.get(kernel.target)
            return may is not None and may(kernel)

        return coalesce(plan, self._cost, may_merge)

    def _divide(self, plan: Plan, merged: Plan) -> None:
        """
        Divide the cost of each kernel of `merged` among those of `plan` that are inside it, and the
        calls of these. What merging saves is first taken from all kernels alike, as launches are,
        then in proportion.
        """
        owner = {
            index: kernel
            for kernel in merged.kernels
            for index in members(kernel.candidate.sub_graph.inside)
        }
        parts: dict[CandidateKernel, list[PlannedKernel]] = {}
        for kernel in plan.kernels:
            whole = owner.get(first(kernel.candidate.sub_graph.inside))
            if whole is not None and kernel.target == whole.target:
                parts.setdefault(whole.candidate, []).append(kernel)
        for kernel in merged.kernels:
            inside = parts.get(kernel.candidate, [])
            if len(inside) > 1:
                costs = [each.cost for each in inside]
                saved = (sum(costs) - kernel.cost) / (len(costs) - 1)
                overhead = max(0.0, min(saved, *costs))
                rest = sum(costs) - overhead * len(costs)
                stays = max(0.0, kernel.cost - overhead) / rest if rest else 1.0
                shares = self._shares.setdefault(kernel.target, {})
                for each in inside:
                    count = _calls(each.candidate).bit_count()
                    share = _Share(overhead, overhead / count, stays)
                    shares.update(dict.fromkeys(members(_calls(each.candidate)), share))


def _calls(candidate: CandidateKernel) -> OpSet:
    return candidate.sub_graph.inside & candidate.graph.calls


def _fewer(targets: Targets) -> Iterator[Targets]:
    """Some of `targets`, so that each smaller choice is one of those, or a part of one."""
    sizes = (len(targets) - 1,) if len(targets) <= _MOST else (2,)
    for size in sizes:
        yield from map(frozenset, combinations(sorted(targets), size))
