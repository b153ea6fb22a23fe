"""Refinement by whole plans: costs with interactions that a sum of costs cannot see."""

import random
from dataclasses import dataclass
from itertools import combinations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from collage_dsl.cost import Cost, Infeasible
from collage_dsl.graph import CandidateKernel, members
from collage_dsl.search import NoPlanError, Plan, Problem, auto
from collage_dsl.search.breeding import Breeding, Genome, groups
from collage_dsl.search.evolution import Times, fittest, refine
from collage_dsl.search.execution_order import in_execution_order
from collage_dsl.search.exhaustive import covers
from tests.cases import cases, sample
from tests.graphs import LIBRARY, NATIVE, candidate, graph_of
from tests.search_problems import again, random_problem
from tests.test_engine_properties import assert_runs

SEEDS = st.integers(0, 2**32)


def text(kernel: CandidateKernel) -> str:
    return f"{kernel.target} {sorted(kernel.nodes)}"


@dataclass(frozen=True)
class Interacting:
    """
    What a plan takes: the sum of the costs of its kernels, and for each pair of kernels a bonus or
    a penalty. Two kernels of the plan that is `planted` help each other; others mostly do harm.
    """

    seed: int
    planted: frozenset[CandidateKernel]

    def __call__(self, plan: Plan) -> float:
        return 100 + plan.cost + sum(self.pair(a, b) for a, b in combinations(plan.candidates, 2))

    def pair(self, one: CandidateKernel, other: CandidateKernel) -> float:
        if one in self.planted and other in self.planted:
            return -4.0
        names = sorted([text(one), text(other)])
        return random.Random(f"{self.seed} {names}").uniform(-2.0, 3.0)


class Races:
    """Compares plans by what they take, with noise, and counts."""

    def __init__(self, time: Interacting, noise: float = 0.0, seed: int = 0) -> None:
        self.time = time
        self.noise = noise
        self.generator = random.Random(seed)
        self.plans: list[Plan] = []

    def __call__(self, best: Plan, plan: Plan) -> Cost:
        self.plans.append(plan)
        factor = 1 + self.generator.uniform(-self.noise, self.noise)
        return factor * self.time(plan) / self.time(best)

    def beats(self, seed: Plan, plan: Plan) -> bool:
        return self.time(plan) < self.time(seed)


def priced(seed: int, calls: int) -> Problem:
    """A random problem, of which every cost is known."""
    problem = again(random_problem(seed, calls=calls), bounded=False)
    problem.ask(problem.candidates)
    return problem


def planted(problem: Problem, seed: int) -> tuple[Interacting, Plan, float]:
    """What plans take, the plan that costs least, and what the fastest plan takes."""
    every = [in_execution_order(problem.graph, chosen) for chosen in covers(problem)]
    assume(every)
    time = Interacting(seed, frozenset(random.Random(seed).choice(every)))
    return time, auto(problem), min(time(problem.plan(chosen)) for chosen in every)


@cases(25)
@given(seed=SEEDS)
@example(seed=10016)  # Chance alone did not find it.
def test_the_fastest_of_all_plans_is_found(seed: int) -> None:
    problem = priced(seed, calls=6)
    time, start, least = planted(problem, seed)
    races = Races(time)

    found = refine(
        Breeding(problem), [start], races, beats=races.beats, is_over=lambda: False, number=seed
    )

    assert time(found.plan) == pytest.approx(least)
    assert found.is_complete
    assert len(set(races.plans)) == len(races.plans), "no plan is raced twice"
    for plan in races.plans:
        assert_runs(plan)


NAMES = [f"n{i:02}" for i in range(8)]
CHAIN = graph_of({n: [NAMES[i - 1] if i else "x"] for i, n in enumerate(NAMES)}, [NAMES[-1]])
POOL = [
    candidate(CHAIN, *NAMES[start : start + size], target=target)
    for size in (1, 2, 3)
    for start in range(len(NAMES) - size + 1)
    for target in (NATIVE, LIBRARY)
]


@pytest.mark.parametrize("seed", sample(5, range(5)))
def test_the_planted_plan_is_found_among_many_without_trying_most(seed: int) -> None:
    generator = random.Random(seed)
    costs = {each: len(each.nodes) * generator.uniform(1.0, 1.5) for each in POOL}
    problem = Problem(CHAIN, POOL, costs.__getitem__)
    problem.ask(POOL)
    every = list(covers(problem))
    hidden = generator.choice([chosen for chosen in every if len(chosen) > 4])
    races = Races(Interacting(seed, frozenset(hidden)))
    least = min(races.time(problem.plan(chosen)) for chosen in every)

    found = refine(
        Breeding(problem),
        [auto(problem)],
        races,
        beats=races.beats,
        is_over=lambda: len(races.plans) >= 400,
        number=seed,
    )

    assert len(every) > 3_000
    assert not found.is_complete
    assert races.time(found.plan) == pytest.approx(least)


@cases(30)
@given(seed=SEEDS, noise=st.sampled_from([0.0, 0.1, 0.9]), limit=st.integers(0, 12))
def test_what_is_returned_is_never_slower_than_what_was_given(
    seed: int, noise: float, limit: int
) -> None:
    problem = priced(seed, calls=6)
    try:
        start = auto(problem)
    except NoPlanError:
        return
    races = Races(Interacting(seed, frozenset()), noise, seed)

    found = refine(
        Breeding(problem),
        [start],
        races,
        beats=races.beats,
        is_over=lambda: len(races.plans) >= limit,
        number=seed,
    )

    assert_runs(found.plan)
    assert found.plan == start or races.time(found.plan) < races.time(start)
    assert len(races.plans) <= limit


@cases(15)
@given(seed=SEEDS, first=st.integers(0, 8))
def test_it_goes_on_where_it_stopped(seed: int, first: int) -> None:
    problem = priced(seed, calls=6)
    try:
        start = auto(problem)
    except NoPlanError:
        return
    time = Interacting(seed, frozenset())

    def run(limit: int, known: Times | None = None) -> Times:
        races = Races(time)
        return refine(
            Breeding(problem),
            [start],
            races,
            beats=races.beats,
            is_over=lambda: len(races.plans) >= limit,
            known=known,
            number=seed,
        ).times

    at_once = run(8)
    stopped = run(first)
    resumed = run(8 - (len(stopped) - 1), stopped)

    assert list(resumed.items()) == list(at_once.items())


def test_the_other_seeds_are_raced_first_and_may_win() -> None:
    costs = {each: float(len(each.nodes)) for each in POOL}
    problem = Problem(CHAIN, POOL, costs.__getitem__)
    problem.ask(POOL)
    start, other = (
        problem.plan([each for each in POOL if len(each.nodes) == 1 and each.target == name])
        for name in ("native", "library")
    )
    races = Races(Interacting(0, frozenset(other.candidates)))

    found = refine(
        Breeding(problem),
        [start, other],
        races,
        beats=races.beats,
        is_over=lambda: len(races.plans) >= 1,
    )

    assert races.plans == [other]
    assert found.plan == other


def test_plans_that_cannot_run_have_no_offspring_and_are_not_tried_again() -> None:
    costs = {each: float(len(each.nodes)) for each in POOL}
    problem = Problem(CHAIN, POOL, costs.__getitem__)
    problem.ask(POOL)
    start = auto(problem)
    tried: list[Genome] = []

    def race(best: Plan, plan: Plan) -> Cost:
        tried.append(plan.candidates)
        return Infeasible("it crashes") if len(tried) % 2 else 0.9

    found = refine(
        Breeding(problem),
        [start],
        race,
        beats=lambda seed, plan: True,
        is_over=lambda: len(tried) >= 40,
    )

    assert len(set(tried)) == 40
    assert found.plan.candidates == fittest(found.times)[0] == tried[-1]


MERGING = [candidate(CHAIN, name, target=LIBRARY) for name in NAMES]


def test_neighbours_of_a_target_that_merges_are_joined_and_cut() -> None:
    """The fastest: two regions, with the cut in the middle. No cost of a kernel says so."""

    def cost(kernel: CandidateKernel) -> Cost:
        return float(len(kernel.nodes))

    def time(plan: Plan) -> float:
        middle = len(NAMES) // 2
        ends = [max(members(k.sub_graph.inside)) for k in plan.candidates]
        cuts = {end - CHAIN.index(NAMES[0]) + 1 for end in ends}
        return 10.0 + len(plan.kernels) + (0 if middle in cuts else 8)

    problem = Problem(CHAIN, MERGING, cost)
    problem.ask(MERGING)
    races = Races(Interacting(0, frozenset()))
    races.time = time  # type: ignore[assignment]

    found = refine(
        Breeding(problem, lambda kernel: True),
        [auto(problem)],
        races,
        beats=races.beats,
        is_over=lambda: len(races.plans) >= 150,
    )

    sizes = [len(kernel.nodes) for kernel in found.plan.kernels]
    assert sizes == [4, 4]


def test_regions_that_may_not_be_are_never_made() -> None:
    problem = Problem(CHAIN, MERGING, lambda kernel: float(len(kernel.nodes)))
    problem.ask(MERGING)
    races = Races(Interacting(0, frozenset()))

    refine(
        Breeding(problem, lambda kernel: len(kernel.nodes) <= 2),
        [auto(problem)],
        races,
        beats=races.beats,
        is_over=lambda: len(races.plans) >= 30,
    )

    assert races.plans
    assert max(len(k.nodes) for plan in races.plans for k in plan.kernels) == 2


@cases(60)
@given(seed=SEEDS)
def test_plans_are_crossed_by_groups_that_both_cover(seed: int) -> None:
    problem = priced(seed, calls=6)
    every = [in_execution_order(problem.graph, chosen) for chosen in covers(problem)]
    assume(every)
    generator = random.Random(seed)
    one, other = generator.choice(every), generator.choice(every)
    breeding = Breeding(problem)

    for mine, theirs in groups(one, other):
        assert set(mine) <= set(one)
        assert set(theirs) <= set(other)
        assert calls(mine) == calls(theirs)
    child = breeding.crossed(one, other, generator)
    if child is not None:
        assert set(child) <= {*one, *other}
        assert_runs(problem.plan(child))


def calls(kernels: list[CandidateKernel]) -> set[int]:
    return {i for k in kernels for i in members(k.sub_graph.inside & k.graph.calls)}


@cases(60)
@given(seed=SEEDS)
def test_a_changed_plan_is_a_plan(seed: int) -> None:
    problem = priced(seed, calls=6)
    every = [in_execution_order(problem.graph, chosen) for chosen in covers(problem)]
    assume(every)
    generator = random.Random(seed)
    breeding = Breeding(problem, lambda kernel: problem.graph.is_convex(kernel.sub_graph.inside))
    genome = generator.choice(every)
    problem._cost = lambda kernel: 1.0  # merged kernels too

    for _ in range(10):
        genome = breeding.mutated(genome, generator) or genome
        assert_runs(problem.plan(genome))
