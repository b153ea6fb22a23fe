"""Make plans out of plans: cross two, and change one. Each is a legal plan again."""

import random
from collections.abc import Iterable, Iterator, Sequence

from collage_dsl.cost import Infeasible
from collage_dsl.graph import CandidateKernel, OpSet, covered, members, union_of
from collage_dsl.search.coalesce import MayMerge, coalesce, have_common_variant, union
from collage_dsl.search.dijkstra import BudgetSpentError, dijkstra
from collage_dsl.search.execution_order import CyclicPlanError, in_execution_order, producers
from collage_dsl.search.plan import NoPlanError
from collage_dsl.search.problem import Problem

Genome = tuple[CandidateKernel, ...]
"""The kernels of a plan in execution order, by which two plans are compared."""

_Sides = tuple[list[CandidateKernel], list[CandidateKernel]]
"""Kernels of one plan, and kernels of another."""

_REACH = 3
"""How many neighbours of a kernel are given to another target together with it, at most."""

_WIDER = 4
"""How often more kernels are replaced around a new one, until there is a plan with it."""

_BUDGET = 10_000
"""How many states a search for the kernels around a new one may expand. What is kept has few."""


def never(kernel: CandidateKernel) -> bool:
    """No kernels may be merged."""
    return False


class Breeding:
    """
    The plans that can be made of candidates whose costs are known, and of merged kernels where
    `may_merge` allows these. The cost of a merged kernel is asked for.
    """

    def __init__(self, problem: Problem, may_merge: MayMerge = never) -> None:
        self.problem = problem
        self.may_merge = may_merge
        self._covering: dict[int, list[CandidateKernel]] = {}
        self._targets: dict[str, None] = {}
        for each, cost in tuple(problem.priced.items()):
            if not isinstance(cost, Infeasible) and problem.places.of(each.sub_graph):
                self._targets[each.target] = None
                for index in each.call_indexes:
                    self._covering.setdefault(index, []).append(each)

    def cost(self, genome: Genome) -> int:
        """The sum of the costs of its kernels, in femtoseconds."""
        return sum(self.problem.price(each) or 0 for each in genome)

    def crossed(self, one: Genome, other: Genome, generator: random.Random) -> Genome | None:
        """
        A plan that has the kernels of one of two plans in each group of calls in which they differ,
        by chance. None if its kernels would wait for each other.
        """
        common = set(one) & set(other)
        chosen = [each for each in one if each in common]
        for group in groups(one, other):
            chosen += generator.choice(group)
        return self._ordered(chosen)

    def mutated(self, genome: Genome, generator: random.Random) -> Genome | None:
        """A plan with other kernels at one place, chosen by chance; None if that gives no plan."""
        if not genome:
            return None
        change = generator.choice((self._replaced, self._replaced, self._moved, self._joined))
        return change(genome, generator)

    def _replaced(self, genome: Genome, generator: random.Random) -> Genome | None:
        """With another candidate in the place of a kernel."""
        index = generator.choice(self._one(genome, generator).call_indexes)
        others = [each for each in self._covering.get(index, ()) if each not in genome]
        return self._with(genome, generator.choice(others), generator) if others else None

    def around(self, genome: Genome, generator: random.Random) -> Iterator[Genome]:
        """Each plan that has another candidate in the place of a kernel of this one."""
        for index in members(union_of(each.calls for each in genome)):
            for taken in self._covering.get(index, ()):
                if taken not in genome and (found := self._with(genome, taken, generator)):
                    yield found

    def _with(
        self, genome: Genome, taken: CandidateKernel, generator: random.Random
    ) -> Genome | None:
        """
        With a candidate in the place of what has its nodes, and the cheapest kernels around it: as
        few as possible are replaced.
        """
        nodes = taken.sub_graph.inside
        for _ in range(_WIDER):
            kept, hole = _without(genome, nodes)
            rest = self._inside(hole & ~taken.calls)
            if found := self._completed(kept, [taken, *rest], hole, generator):
                return found
            nodes |= covered(self._touching(hole))
        return None

    def _moved(self, genome: Genome, generator: random.Random) -> Genome | None:
        """With a kernel, and some of its neighbours, given to another target."""
        start = self._one(genome, generator)
        others = [name for name in self._targets if name != start.target]
        if not others:
            return None
        block = self._block(genome, start, generator.randint(0, _REACH), generator)
        kept, hole = _without(genome, block)
        target = generator.choice(others)
        rest = [each for each in self._inside(hole) if each.target == target]
        return self._completed(kept, rest, hole, generator)

    def _joined(self, genome: Genome, generator: random.Random) -> Genome | None:
        """With two neighbours of one target merged."""
        pairs = [
            (one, other)
            for one, other in _neighbours(self.problem, genome)
            if one.target == other.target and have_common_variant((one, other))
        ]
        if not pairs:
            return None
        pair = generator.choice(pairs)
        whole = union(pair)
        if not self._may_be(whole, genome) or self.problem.price(whole) is None:
            return None
        return self._ordered([whole, *(each for each in genome if each not in pair)])

    def _one(self, genome: Genome, generator: random.Random) -> CandidateKernel:
        """A kernel by chance; those that cost more are chosen more often."""
        costs = [self.problem.price(each) or 0 for each in genome]
        least = 1 + sum(costs) // (4 * len(costs))
        return generator.choices(genome, [least + cost for cost in costs])[0]

    def _block(
        self, genome: Genome, start: CandidateKernel, more: int, generator: random.Random
    ) -> OpSet:
        """The nodes of a kernel and of `more` kernels that touch what is taken."""
        pairs = _neighbours(self.problem, genome) if more else []
        block = [start]
        for _ in range(more):
            touching = [b if a in block else a for a, b in pairs if (a in block) != (b in block)]
            if touching:
                block.append(generator.choice(touching))
        return covered(block)

    def _inside(self, calls: OpSet) -> list[CandidateKernel]:
        """The candidates that have none but these calls."""
        found = dict.fromkeys(self._touching(calls))
        return [each for each in found if not each.calls & ~calls]

    def _touching(self, calls: OpSet) -> Iterable[CandidateKernel]:
        """The candidates that have any of these calls."""
        return (each for index in members(calls) for each in self._covering.get(index, ()))

    def _completed(
        self,
        kept: Sequence[CandidateKernel],
        rest: Sequence[CandidateKernel],
        hole: OpSet,
        generator: random.Random,
    ) -> Genome | None:
        """The cheapest plan of what is kept and `rest`, with kernels in the hole merged, or not."""
        given = self.problem
        known = {each: given.priced[each] for each in (*kept, *rest)}
        smaller = Problem(given.graph, known, given.cost, known=known, places=given.places)
        try:
            plan = dijkstra(smaller, budget=_BUDGET)
        except (NoPlanError, BudgetSpentError):
            return None
        if self.may_merge is not never and generator.random() < 0.5:
            plan = coalesce(plan, given.cost, self._merging(plan.candidates, hole))
        return plan.candidates

    def _merging(self, genome: Genome, hole: OpSet) -> MayMerge:
        """Merges only what has nodes in the hole, so that cuts elsewhere remain."""
        return lambda whole: bool(whole.sub_graph.inside & hole) and self._may_be(whole, genome)

    def _may_be(self, whole: CandidateKernel, genome: Genome) -> bool:
        """Whether a merged kernel is allowed, and takes in no part of a kernel."""
        inside = whole.sub_graph.inside
        parts = (each.sub_graph.inside for each in genome if each.sub_graph.inside & inside)
        return not any(part & ~inside for part in parts) and self.may_merge(whole)

    def _ordered(self, kernels: Sequence[CandidateKernel]) -> Genome | None:
        try:
            return in_execution_order(self.problem.graph, kernels)
        except CyclicPlanError:
            return None


def groups(one: Genome, other: Genome) -> list[_Sides]:
    """
    The kernels of two plans where they differ, in the smallest groups whose nodes both plans cover
    with kernels of the group only. A group has kernels of the one and of the other plan.
    """
    found: list[tuple[OpSet, _Sides]] = []
    for side, (genome, others) in enumerate(((one, set(other)), (other, set(one)))):
        for kernel in (each for each in genome if each not in others):
            inside = kernel.sub_graph.inside
            sides: _Sides = ([kernel], []) if side == 0 else ([], [kernel])
            apart = []
            for nodes, group in found:
                if nodes & inside:
                    inside |= nodes
                    sides = group[0] + sides[0], group[1] + sides[1]
                else:
                    apart.append((nodes, group))
            found = [*apart, (inside, sides)]
    return [sides for _, sides in found]


def _neighbours(problem: Problem, genome: Genome) -> list[tuple[CandidateKernel, CandidateKernel]]:
    """Pairs of kernels of which one takes a value from the other."""
    needs = producers(problem.graph, genome)
    return [(genome[k], genome[n]) for n, needed in enumerate(needs) for k in sorted(needed)]


def _without(genome: Genome, nodes: OpSet) -> tuple[list[CandidateKernel], OpSet]:
    """The kernels that have none of these nodes, and the calls of the others."""
    kept = [each for each in genome if not each.sub_graph.inside & nodes]
    hole = union_of(each.calls for each in genome if each.sub_graph.inside & nodes)
    return kept, hole
