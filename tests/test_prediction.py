"""What kernels cost is predicted from kernels that are priced, so that fewer must be priced."""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from collage_dsl.cost import Cost, Infeasible
from collage_dsl.engine.steps import regions
from collage_dsl.graph import CandidateKernel, Graph, members
from collage_dsl.search import CLOSE, FORESEEN, Hints, NoPlanError, Plan, Problem, dijkstra, milp
from collage_dsl.search.partial import LEFT_ALONE
from collage_dsl.search.prediction import Prediction
from collage_dsl.search.problem import SECOND
from collage_dsl.search.searches import Searches
from collage_dsl.search.structure import Structure
from tests.cases import cases
from tests.graphs import LIBRARY, NATIVE, candidate, graph_of
from tests.search_problems import random_problem

SEEDS = st.integers(0, 2**32)
NAMES = [f"n{i:02}" for i in range(24)]
CHAIN = graph_of(
    {n: [NAMES[i - 1] if i else "x", "y", "z"][: 1 + i % 3] for i, n in enumerate(NAMES)},
    [NAMES[-1]],
)
ROWS = [
    candidate(CHAIN, *NAMES[start : start + length], target=target)
    for target in (NATIVE, LIBRARY)
    for length in range(1, 10)
    for start in range(len(NAMES) - length + 1)
]
"""All kernels for up to nine calls in a row. These have one, two and three operands in turn."""

STRUCTURE = Structure(CHAIN)


def additive(candidate: CandidateKernel) -> float:
    """A launch, and a time for each call, which depends on the target."""
    launch, each = (9e-6, (5e-6, 9e-6, 2e-6))
    if candidate.target == LIBRARY.name:
        launch, each = (12e-6, (6e-6, 6e-6, 4e-6))
    return launch + sum(each[len(CHAIN.nodes[i].inputs) - 1] for i in members(candidate.calls))


def predicted_by(some: list[CandidateKernel], graph: Graph = CHAIN) -> Prediction:
    prediction = Prediction(graph, Structure(graph))
    for each in some:
        prediction.learn(each, additive(each))
    for _ in range(50):
        prediction.fit()
    return prediction


def test_costs_that_are_sums_are_predicted() -> None:
    some = [each for each in ROWS if len(each.nodes) <= 2]
    prediction = predicted_by(some)

    errors = [prediction.of(each) / additive(each) - 1 for each in ROWS]
    assert max(map(abs, errors)) < 0.05


def test_what_no_known_kernel_does_is_predicted_to_take_no_time() -> None:
    library = [each for each in ROWS if each.target == LIBRARY.name]
    prediction = predicted_by([each for each in library if each.nodes == {"n00"}])

    alone, other, both = (
        candidate(CHAIN, *n, target=LIBRARY) for n in (["n03"], ["n01"], ["n00", "n01"])
    )
    assert prediction.of(alone) == pytest.approx(additive(alone), rel=0.01)
    assert prediction.of(other) < prediction.of(both) == pytest.approx(additive(alone), rel=0.3)
    assert prediction.of(candidate(CHAIN, "n00", target=NATIVE)) == 0


def test_costs_of_nothing_and_of_an_age_teach_nothing_and_break_nothing() -> None:
    prediction = Prediction(CHAIN, Structure(CHAIN))
    for each, seconds in zip(ROWS, (0.0, 1e300, 1e-300, 0.0), strict=False):
        prediction.learn(each, seconds)
        prediction.fit()
    assert prediction.of(ROWS[0]) >= 0


def of_chain(cost: Callable[[CandidateKernel], Cost], *, predicts: bool) -> tuple[Plan, int]:
    """The plan, and how many different kernels were priced."""
    problem = Problem(CHAIN, ROWS, cost, Hints(lambda _: 1e-9, predicts))
    plan = dijkstra(problem)
    return plan, len(set(map(STRUCTURE.of, problem.priced)))


def test_with_predictions_few_costs_are_asked_for_and_the_plan_is_as_good() -> None:
    generator = random.Random(7)
    noise = {key: generator.uniform(0.9, 1.1) for key in map(STRUCTURE.of, ROWS)}

    def cost(each: CandidateKernel) -> float:
        return additive(each) * noise[STRUCTURE.of(each)]

    plan, asked = of_chain(cost, predicts=True)
    exact, needed = of_chain(cost, predicts=False)

    assert plan.cost == exact.cost
    assert asked < 0.7 * needed
    assert plan.record is not None
    assert exact.record is not None
    assert (plan.record.proven, plan.record.predicted) == (False, True)
    assert (exact.record.proven, exact.record.predicted) == (True, False)
    assert plan.record.bound <= plan.cost


def test_without_lower_bounds_nothing_is_predicted() -> None:
    problem = Problem(CHAIN, ROWS, additive, Hints(predicts=True))
    plan = dijkstra(problem)

    assert not problem.predicts
    assert plan.record is not None
    assert plan.record.proven


def assumed(problem: Problem) -> Problem:
    """The problem in which a kernel without a price costs what it was assumed to cost at least."""

    def cost(each: CandidateKernel) -> Cost:
        return problem.priced.get(each, problem.least(each) / SECOND)

    return Problem(problem.graph, problem.candidates, cost)


@pytest.mark.parametrize("strategy", [dijkstra, milp])
@cases(60)
@given(seed=SEEDS)
@example(seed=4028)  # a cost becomes known after its block was solved
def test_no_plan_is_cheaper_by_what_is_assumed(
    strategy: Callable[[Problem], Plan], seed: int
) -> None:
    given_ = random_problem(seed, bounded=True)
    hints = replace(given_.hints, predicts=True)
    problem = Problem(given_.graph, given_.candidates, given_.cost, hints)
    try:
        plan = strategy(problem)
    except NoPlanError:
        with pytest.raises(NoPlanError):
            dijkstra(given_)
        return
    assert plan.cost <= dijkstra(assumed(problem)).cost + 1e-12


@cases(60)
@given(seed=SEEDS)
def test_each_of_many_searches_finds_a_best_choice_by_what_is_assumed(seed: int) -> None:
    given_ = random_problem(seed, bounded=True)
    hints = replace(given_.hints, predicts=True)
    problem = Problem(given_.graph, given_.candidates, given_.cost, hints)
    kernels = Searches(problem).cheapest({NATIVE.name, LIBRARY.name})
    if any(each.toolchain == LEFT_ALONE for each in kernels):
        return
    costs = [problem.priced[each] for each in kernels]
    total = sum(cost for cost in costs if not isinstance(cost, Infeasible))
    assert total <= dijkstra(assumed(problem)).cost * (1 + CLOSE) + 1e-12


@cases(60)
@given(seed=SEEDS)
def test_a_plan_that_is_searched_for_again_is_never_dearer_than_one_of_a_target(seed: int) -> None:
    given_ = random_problem(seed, bounded=True)
    hints = replace(given_.hints, predicts=True)
    found = regions(given_.graph, given_.candidates, given_.cost, (), hints)
    alone = []
    for target in (NATIVE.name, LIBRARY.name):
        with suppress(NoPlanError):
            found.plan()
            alone.append(found.plan([target]).cost)

    assert all(found.plan().cost <= each + 1e-12 for each in alone)


def test_a_search_ends_at_a_plan_that_is_assumed_to_be_nearly_the_best() -> None:
    generator = random.Random(7)
    noise = {key: generator.uniform(0.95, 1.05) for key in map(STRUCTURE.of, ROWS)}

    def cost(each: CandidateKernel) -> float:
        return additive(each) * noise[STRUCTURE.of(each)]

    def searched(*, predicts: bool) -> tuple[float, int]:
        problem = Problem(CHAIN, ROWS, cost, Hints(lambda _: 1e-9, predicts))
        kernels = Searches(problem).cheapest({NATIVE.name, LIBRARY.name})
        return sum(map(cost, kernels)), len(set(map(STRUCTURE.of, problem.priced)))

    (total, asked), (least, needed) = searched(predicts=True), searched(predicts=False)
    assert least <= total <= least * (1 + CLOSE)
    assert asked < 0.7 * needed


def test_a_kernel_that_is_cheaper_than_predicted_may_be_overlooked_and_nothing_else() -> None:
    """The search may miss it only where it costs less than `FORESEEN` of the prediction."""
    cheap = candidate(CHAIN, *NAMES[6:12], target=LIBRARY)

    def cost(part: float) -> Callable[[CandidateKernel], Cost]:
        return lambda each: additive(each) * (part if each == cheap else 1.0)

    plan, _ = of_chain(cost(FORESEEN * 1.05), predicts=True)
    exact, _ = of_chain(cost(FORESEEN * 1.05), predicts=False)
    assert plan.cost == exact.cost


def test_kernels_that_do_the_same_are_priced_together() -> None:
    announced: list[list[CandidateKernel]] = []
    hints = Hints(lambda _: 1e-9, predicts=True, ahead=lambda some: announced.append(list(some)))
    dijkstra(Problem(CHAIN, ROWS, additive, hints))

    keys = [key for some in announced for key in {STRUCTURE.of(each) for each in some}]
    assert len(keys) == len(set(keys)) > 1


def test_candidates_do_the_same_if_they_have_equal_calls_in_equal_order() -> None:
    at = [STRUCTURE.of(candidate(CHAIN, NAMES[i], NAMES[i + 1])) for i in (1, 2, 4, 5)]

    assert at[0] == at[2] != at[1] == at[3]
    assert STRUCTURE.of(candidate(CHAIN, "n01", target=LIBRARY)) != STRUCTURE.of(
        candidate(CHAIN, "n01", target=NATIVE)
    )
    last, other = (candidate(CHAIN, name) for name in (NAMES[-1], NAMES[2]))
    assert STRUCTURE.of(last) == STRUCTURE.of(other), "both have one result"
