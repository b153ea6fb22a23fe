"""Many searches over the same kernels, against one search for each."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collage_dsl.cost import Infeasible
from collage_dsl.graph import CandidateKernel, first
from collage_dsl.search import Hints, NoPlanError, Plan, Problem, exhaustive
from collage_dsl.search.greedy import rank_of
from collage_dsl.search.partial import LEFT_ALONE, as_far_as_possible
from collage_dsl.search.searches import Estimates, Searches
from collage_dsl.search.state_graph import StateGraph, TooManyStatesError
from tests.cases import cases
from tests.graphs import LIBRARY, NATIVE, candidate, graph_of
from tests.search_problems import again, random_problem

SEEDS = st.integers(0, 2**32)
BOTH = (NATIVE.name, LIBRARY.name)
NAMES = [f"n{i:02}" for i in range(12)]
CHAIN = graph_of({n: [NAMES[i - 1] if i else "x"] for i, n in enumerate(NAMES)}, [NAMES[-1]])


def halved(each: CandidateKernel, seconds: float) -> float:
    """Half of the cost where the first node is an even one; a third of them is left out."""
    start = first(each.sub_graph.inside)
    return float("inf") if start % 3 == 2 else seconds / 2 if start % 2 == 0 else seconds


def expected(
    problem: Problem,
    candidates: list[CandidateKernel],
    estimates: Estimates,
    regions: set[CandidateKernel],
) -> Problem:
    """The problem of one search."""

    def cost(each: CandidateKernel) -> float | Infeasible:
        seconds = problem.cost(each)
        estimate = estimates.get(each.target)
        if isinstance(seconds, Infeasible) or estimate is None or each in regions:
            return seconds
        found = estimate(each, seconds)
        return Infeasible("left out") if found == float("inf") else found

    return Problem(problem.graph, candidates, cost)


@pytest.mark.parametrize("bounded", [False, True])
@cases(60)
@given(seed=SEEDS)
def test_each_search_finds_a_best_choice(bounded: bool, seed: int) -> None:
    generator = random.Random(seed)
    given_ = again(random_problem(seed, bounded=bounded))
    regions = tuple(
        each
        for each in given_.candidates
        if generator.random() < 0.3
        and given_.places.of(each.sub_graph)
        and not isinstance(given_.cost(each), Infeasible)
    )
    parts = [each for each in given_.candidates if each not in regions]
    searches = Searches(given_.of(parts))

    for targets in (BOTH, BOTH[:1], BOTH[1:], BOTH):
        for estimates in ({}, {NATIVE.name: halved}):
            for some in (regions, regions[:1], ()):
                kernels = searches.cheapest(targets, some, estimates)
                allowed = [each for each in parts if each.target in targets] + list(some)
                problem = expected(given_, allowed, estimates, set(some))
                assert_best(problem, kernels)


def assert_best(problem: Problem, kernels: tuple[CandidateKernel, ...]) -> None:
    covered = sum(each.sub_graph.inside & problem.graph.calls for each in kernels)
    assert covered == problem.graph.calls
    alone = [each for each in kernels if each.toolchain == LEFT_ALONE]
    try:
        best: Plan | None = exhaustive(problem)
    except NoPlanError:
        best = None
    assert (best is None) == bool(alone)
    if best is not None:
        demotions = sum(map(problem.demotion, kernels)), sum(map(problem.demotion, best.candidates))
        assert rank_of(problem, kernels)[0] == rank_of(problem, best.candidates)[0]
        assert demotions[0] == demotions[1]
        assert len(kernels) == len(best.kernels)
    elif all(problem.places.of(each.sub_graph) for each in problem.candidates):
        left = [each for each in as_far_as_possible(problem).candidates if is_alone(each)]
        assert len(alone) <= len(left)


def is_alone(each: CandidateKernel) -> bool:
    return each.toolchain == LEFT_ALONE


def test_another_target_changes_a_tie_only_by_a_better_choice() -> None:
    """Each call costs 1, and so does each pair: many choices are equally good."""
    pairs = [candidate(CHAIN, *pair) for pair in pairwise(NAMES)]
    more = [candidate(CHAIN, name, target=LIBRARY) for name in NAMES]
    singles = [candidate(CHAIN, name) for name in NAMES]

    def cost(each: CandidateKernel) -> float:
        return 1.0 if each.target == NATIVE.name else 5.0

    triples = [candidate(CHAIN, *NAMES[i : i + 3]) for i in range(len(NAMES) - 2)]
    fewer = Searches(Problem(CHAIN, [*singles, *pairs, *triples], cost))
    both = Searches(Problem(CHAIN, [*more, *triples, *pairs, *singles], cost))

    alone = fewer.cheapest([NATIVE.name])

    assert set(both.cheapest([NATIVE.name])) == set(alone)
    assert set(both.cheapest(BOTH)) == set(alone)


def test_with_lower_bounds_few_costs_are_asked_for() -> None:
    asked: list[CandidateKernel] = []
    least = {1: 1.0, 2: 5.0}

    def cost(each: CandidateKernel) -> float:
        asked.append(each)
        return least[len(each.nodes)]

    pairs = [candidate(CHAIN, *pair) for pair in pairwise(NAMES)]
    singles = [candidate(CHAIN, name) for name in NAMES]
    bounds = Problem(CHAIN, [*pairs, *singles], cost, Hints(lambda k: least[len(k.nodes)]))

    found = Searches(bounds).cheapest([NATIVE.name])

    assert sorted(map(len, (each.nodes for each in found))) == [1] * len(NAMES)
    assert set(asked) == set(singles)


def test_too_many_states_are_refused() -> None:
    edges = {f"b{i}": ["x"] for i in range(6)}
    graph = graph_of(edges, list(edges))
    found = [candidate(graph, *pair) for pair in zip(edges, list(edges)[3:], strict=False)]
    problem = Problem(graph, [*(candidate(graph, name) for name in edges), *found], lambda _: 1.0)
    places = [problem.places.of(each.sub_graph) for each in problem.candidates]
    known = [place for place in places if place is not None]

    assert len(StateGraph(problem.places.calls, known, 100).numbers) > 7
    with pytest.raises(TooManyStatesError):
        StateGraph(problem.places.calls, known, 3)
