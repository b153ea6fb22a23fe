"""Plans that leave calls alone."""

import itertools
import random

import pytest

from collage_dsl.cost import Cost, Infeasible
from collage_dsl.graph import CandidateKernel, Graph, SubGraph, Toolchain, members
from collage_dsl.search.hints import Hints
from collage_dsl.search.partial import LEFT_ALONE, as_far_as_possible, without_left_alone
from collage_dsl.search.problem import Problem
from tests.random_relax import relax_graph

T = Toolchain("t")

Found = dict[CandidateKernel, Cost]


def random_candidates(generator: random.Random, graph: Graph) -> Found:
    """Single calls and pairs that follow each other, of which some have no cost."""
    calls = list(members(graph.calls))
    insides = [1 << index for index in calls]
    insides += [1 << i | 1 << user for i in calls for user in members(graph.users_of[i])]
    convex = [inside & graph.calls for inside in insides if graph.is_convex(inside)]
    kept = [inside for inside in dict.fromkeys(convex) if generator.random() < 0.5]
    costs: list[Cost] = [Infeasible("no"), 0.0, 1e-6, 2e-6, 5.0]
    return {CandidateKernel(graph, SubGraph(each), T): generator.choice(costs) for each in kept}


def best(graph: Graph, found: Found) -> tuple[int, float]:
    """How many calls are left alone, and at what cost, by trying every set of candidates."""
    results = []
    feasible = [(c, cost) for c, cost in found.items() if not isinstance(cost, Infeasible)]
    feasible = [(c, cost) for c, cost in feasible if graph.exit(c.sub_graph.inside)]
    for count in range(len(feasible) + 1):
        for chosen in itertools.combinations(feasible, count):
            covered, total = 0, 0.0
            for candidate, cost in chosen:
                if candidate.sub_graph.inside & covered:
                    break
                covered |= candidate.sub_graph.inside
                total += cost
            else:
                results.append(((graph.calls & ~covered).bit_count(), total))
    return min(results)


@pytest.mark.parametrize("seed", range(60))
def test_as_few_as_possible_and_then_the_cheapest(seed: int) -> None:
    generator = random.Random(seed)
    graph = relax_graph(generator, 5)
    found = random_candidates(generator, graph)
    found = dict(list(found.items())[:9])

    plan = as_far_as_possible(Problem(graph, found, found.__getitem__))
    kernels = without_left_alone(plan)

    covered = 0
    for candidate in kernels.candidates:
        assert candidate.toolchain == T
        covered |= candidate.sub_graph.inside
    left = (graph.calls & ~covered).bit_count()
    assert (left, kernels.cost) == pytest.approx(best(graph, found), abs=1e-9)
    assert kernels.cost == pytest.approx(plan.cost)
    alone = [c for c in plan.candidates if c.toolchain == LEFT_ALONE]
    assert len(alone) == left


@pytest.mark.parametrize("seed", range(30))
def test_lower_bounds_leave_the_cost_as_it_is_and_are_asked_of_candidates_alone(seed: int) -> None:
    generator = random.Random(seed)
    graph = relax_graph(generator, 5)
    found = random_candidates(generator, graph)

    def least(candidate: CandidateKernel) -> float:
        cost = found[candidate]
        return 9.0 if isinstance(cost, Infeasible) else 0.5 * cost

    plan = as_far_as_possible(Problem(graph, found, found.__getitem__))
    problem = Problem(graph, found, found.__getitem__, Hints(least))
    bounded = as_far_as_possible(problem)

    assert bounded.cost == pytest.approx(plan.cost)
    alone = [sum(c.toolchain is LEFT_ALONE for c in each.candidates) for each in (plan, bounded)]
    assert alone[0] == alone[1]


def test_no_candidates_are_no_kernels() -> None:
    graph = relax_graph(random.Random(1), 4)

    plan = as_far_as_possible(Problem(graph, [], lambda candidate: 1.0))

    assert not without_left_alone(plan).kernels
    assert plan.cost == 0
