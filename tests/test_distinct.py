"""The next best plans that differ in a large kernel, against all covers."""

from itertools import combinations, islice
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collage_dsl.cost import Cost
from collage_dsl.graph import CandidateKernel
from collage_dsl.search import NoPlanError, Plan, Problem, auto, distinct, exhaustive
from collage_dsl.search.distinct import place_of
from collage_dsl.search.exhaustive import covers
from tests.cases import cases
from tests.graphs import LIBRARY, NATIVE, candidate, graph_of
from tests.search_problems import again, random_problem, rank
from tests.test_engine_properties import assert_runs

NAMES = [f"n{i}" for i in range(6)]
CHAIN = graph_of({n: [NAMES[i - 1] if i else "x"] for i, n in enumerate(NAMES)}, [NAMES[-1]])


def priced(problem: Problem) -> Problem:
    problem.ask(problem.candidates)
    return problem


def costs_of(problem: Problem, chosen: tuple[CandidateKernel, ...]) -> int:
    return sum(problem.price(each) or 0 for each in chosen)


def large(plan: Plan, least: float) -> set[object]:
    return {place_of(each.candidate) for each in plan.kernels if each.cost >= least}


@cases(60)
@given(seed=st.integers(0, 2**32))
def test_they_are_the_cheapest_that_differ_in_a_large_kernel(seed: int) -> None:
    problem = priced(random_problem(seed, calls=6))
    try:
        best = auto(again(problem, bounded=False))
    except NoPlanError:
        return
    least = 0.5 * fmean(kernel.cost for kernel in best.kernels)

    found = [best, *islice(distinct(problem, best, within=1.0), 4)]

    for plan in found:
        assert_runs(plan)
    assert [rank(p)[0] for p in found] == sorted(rank(p)[0] for p in found)
    assert found[-1].cost <= 2 * best.cost + 1e-12
    assert all(large(a, least) != large(b, least) for a, b in combinations(found, 2))
    last = rank(found[-1])[0]
    for chosen in covers(problem):
        if costs_of(problem, chosen) < last:
            places = {place_of(each) for each in chosen}
            assert any(large(plan, least) <= places for plan in found)


@cases(30)
@given(seed=st.integers(0, 2**32))
def test_all_of_them_are_found_in_the_end(seed: int) -> None:
    problem = priced(random_problem(seed, calls=4))
    try:
        best = auto(again(problem, bounded=False))
    except NoPlanError:
        return
    least = 0.5 * fmean(kernel.cost for kernel in best.kernels)
    most = round(best.cost * 1.5 * 10**15)

    found = [best, *distinct(problem, best, within=0.5)]

    for chosen in covers(problem):
        if costs_of(problem, chosen) <= most:
            places = {place_of(each) for each in chosen}
            assert any(large(plan, least) <= places for plan in found)


def tiny_last(kernel: CandidateKernel) -> Cost:
    cost = 1e-6 if "n5" in kernel.nodes else 1e-3 * len(kernel.nodes)
    return cost * (1.01 if kernel.target == LIBRARY.name else 1.0)


SINGLES = [candidate(CHAIN, name, target=target) for name in NAMES for target in (NATIVE, LIBRARY)]


def test_plans_that_differ_in_a_tiny_kernel_only_are_not_worth_a_race() -> None:
    problem = priced(Problem(CHAIN, SINGLES, tiny_last))

    found = list(islice(distinct(problem, auto(problem)), 5))

    assert [[k.target for k in plan.kernels].count("library") for plan in found] == [1] * 5
    assert all(plan.kernels[-1].target == "native" for plan in found), "the tiny one"


def test_plans_that_cost_much_more_are_not_looked_for() -> None:
    def dear(kernel: CandidateKernel) -> Cost:
        return 10.0 if kernel.target == LIBRARY.name else 1.0

    problem = priced(Problem(CHAIN, SINGLES, dear))

    assert not list(distinct(problem, auto(problem)))


def test_no_cost_is_asked_for() -> None:
    asked: list[CandidateKernel] = []

    def cost(kernel: CandidateKernel) -> Cost:
        asked.append(kernel)
        return 1.0

    problem = Problem(CHAIN, SINGLES, cost)
    problem.ask(SINGLES[:4])
    best = problem.plan([each for each in SINGLES if each.target == NATIVE.name])
    known = len(asked)

    found = list(distinct(problem, best))

    assert len(asked) == known
    assert found, "the first two calls have kernels of both targets"
    assert all(each in problem.priced for plan in found for each in plan.candidates)


@pytest.mark.parametrize("solve", [auto, exhaustive])
def test_kernels_of_the_same_calls_and_target_are_not_other_kernels(solve: object) -> None:
    again = [
        candidate(CHAIN, name, target=NATIVE.only_by(frozenset({"winograd"}))) for name in NAMES
    ]
    singles = [candidate(CHAIN, name) for name in NAMES]
    problem = priced(Problem(CHAIN, [*singles, *again], lambda kernel: 1.0))

    assert not list(distinct(problem, auto(problem), solve=solve))  # type: ignore[arg-type]
