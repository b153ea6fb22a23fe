"""Searches against the exhaustive one, on small and on random graphs."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from collage_dsl.cost import Cost, CostFunction, Infeasible
from collage_dsl.engine.steps import choose, propose
from collage_dsl.graph import CandidateKernel, SubGraph
from collage_dsl.rules import TVM_DEFAULT, CombineByPrimitives, FusionSpec, Limits, OpCallByKind
from collage_dsl.search import NoPlanError, Plan, Problem, coalesce, dijkstra, exhaustive
from collage_dsl.search.execution_order import is_acyclic
from tests.graphs import LIBRARY, NATIVE, candidate, graph_of, random_graph

CHAIN = graph_of({"a": ["x"], "b": ["a"], "c": ["b"]}, ["c"])
COMBINED = CombineByPrimitives(OpCallByKind(), TVM_DEFAULT, max_depth=4)


def priced(**costs: Cost) -> CostFunction:
    """A cost function by target and first letters: `native_ab=1.0`."""

    def cost(found: CandidateKernel) -> Cost:
        return costs["_".join([found.target, "".join(sorted(found.nodes))])]

    return cost


def test_the_cheapest_cover_wins_even_where_each_of_its_kernels_is_dearer() -> None:
    found = [
        candidate(CHAIN, "a"),
        candidate(CHAIN, "b"),
        candidate(CHAIN, "c"),
        candidate(CHAIN, "a", "b", target=LIBRARY),
        candidate(CHAIN, "b", "c", target=LIBRARY),
    ]
    cost = priced(native_a=1.0, native_b=1.0, native_c=5.0, library_ab=1.5, library_bc=4.0)

    plan = dijkstra(Problem(CHAIN, found, cost))

    assert [(k.target, sorted(k.nodes)) for k in plan.kernels] == [
        ("native", ["a"]),
        ("library", ["b", "c"]),
    ]
    assert plan.cost == pytest.approx(5.0)


def test_a_candidate_that_no_state_can_use_is_never_priced() -> None:
    asked = []

    def cost(found: CandidateKernel) -> Cost:
        asked.append(sorted(found.nodes))
        return 1.0

    found = [candidate(CHAIN, "a", "b", "c"), candidate(CHAIN, "b"), candidate(CHAIN, "c")]
    dijkstra(Problem(CHAIN, found, cost))

    assert asked == [["a", "b", "c"]]


def test_each_candidate_is_priced_once() -> None:
    asked: list[CandidateKernel] = []

    def cost(found: CandidateKernel) -> Cost:
        asked.append(found)
        return 1.0

    graph = random_graph(random.Random(1), 8)
    spec = FusionSpec(NATIVE, COMBINED)
    dijkstra(Problem(graph, propose(graph, spec), cost))

    assert len(asked) == len(set(asked))


def test_a_node_without_a_feasible_candidate_is_named() -> None:
    found = [candidate(CHAIN, "a"), candidate(CHAIN, "b"), candidate(CHAIN, "c")]
    cost = priced(native_a=1.0, native_b=Infeasible("crashed"), native_c=1.0)

    for search in (dijkstra, exhaustive):
        with pytest.raises(NoPlanError, match="no target has a kernel for `b`") as caught:
            search(Problem(CHAIN, found, cost))
        assert caught.value.nodes == ("b",)


def test_a_dead_end_is_left_for_another_path() -> None:
    # Taking {a, b} first leaves c without a kernel that does not overlap.
    found = [
        candidate(CHAIN, "a", "b"),
        candidate(CHAIN, "a"),
        candidate(CHAIN, "b", "c"),
    ]
    cost = priced(native_ab=0.1, native_a=1.0, native_bc=1.0)

    plan = dijkstra(Problem(CHAIN, found, cost))

    assert [sorted(k.nodes) for k in plan.kernels] == [["a"], ["b", "c"]]


def test_of_equal_costs_the_plan_with_fewer_kernels_wins() -> None:
    found = [candidate(CHAIN, *names) for names in ("a", "b", "c", "ab", "abc")]
    cost = priced(native_a=1.0, native_b=1.0, native_c=1.0, native_ab=2.0, native_abc=3.0)

    assert len(dijkstra(Problem(CHAIN, found, cost)).kernels) == 1


TWO_CHAINS = graph_of({"a": ["x"], "b": ["y"], "c": ["a"], "d": ["b"]}, ["c", "d"])
"""a -> c and b -> d: the kernels {a, d} and {b, c} would wait for each other."""


def test_kernels_that_wait_for_each_other_are_never_chosen_together() -> None:
    found = [candidate(TWO_CHAINS, *names) for names in ("ad", "bc", "a", "b", "c", "d")]
    cheap_pair = {"ad": 0.1, "bc": 0.1}

    def cost(kernel: CandidateKernel) -> Cost:
        return cheap_pair.get("".join(sorted(kernel.nodes)), 1.0)

    problem = Problem(TWO_CHAINS, found, cost)

    assert dijkstra(problem).cost == exhaustive(problem).cost == pytest.approx(2.1)


class RandomCosts(dict[CandidateKernel, Cost]):
    """A random cost for each candidate, every tenth of them infeasible."""

    def __init__(self, seed: int) -> None:
        self.generator = random.Random(seed)

    def __missing__(self, key: CandidateKernel) -> Cost:
        feasible = len(key.nodes) == 1 or self.generator.random() > 0.1
        price = self.generator.randint(1, 10) * len(key.nodes) ** 0.5
        self[key] = price if feasible else Infeasible("by chance")
        return self[key]


@pytest.mark.parametrize("seed", range(200))
def test_dijkstra_finds_the_cost_of_the_exhaustive_search(seed: int) -> None:
    generator = random.Random(seed)
    graph = random_graph(generator, generator.randint(1, 8))
    limits = Limits(max_exits=generator.choice([1, 2, None]), taps=generator.random() < 0.3)
    specs = [FusionSpec(NATIVE, COMBINED, limits), FusionSpec(LIBRARY, COMBINED, limits)]
    found = propose(graph, *specs)
    problem = Problem(graph, found, RandomCosts(seed).__getitem__)

    plan = dijkstra(problem)

    assert plan.cost == pytest.approx(exhaustive(problem).cost)
    assert_covers(plan)


@pytest.mark.parametrize("seed", range(100))
def test_at_equal_cost_both_searches_find_the_highest_priority(seed: int) -> None:
    generator = random.Random(seed)
    graph = random_graph(generator, generator.randint(1, 7))
    targets = [replace(NATIVE, priority=generator.randint(-3, 3)), replace(LIBRARY, priority=1)]
    limits = Limits(max_exits=generator.choice([1, 2, None]))
    found = propose(graph, *(FusionSpec(target, COMBINED, limits) for target in targets))
    # Whole numbers, so that sums are equal in any order; some cost nothing.
    costs = {each: float(generator.randint(0, 2)) for each in found}
    problem = Problem(graph, found, costs.__getitem__)

    ranks = [
        (plan.cost, -plan.priority, len(plan.kernels))
        for plan in (dijkstra(problem), exhaustive(problem))
    ]

    assert ranks[0] == ranks[1]


@pytest.mark.parametrize("search", [dijkstra, exhaustive])
@pytest.mark.parametrize("priority", [-5, 5])
def test_priority_decides_at_equal_cost_whichever_is_proposed_first(
    search: Callable[[Problem], Plan], priority: int
) -> None:
    library = replace(LIBRARY, priority=priority)
    found = [candidate(CHAIN, name, target=t) for name in "abc" for t in (NATIVE, library)]

    for order in (found, found[::-1]):
        plan = search(Problem(CHAIN, order, lambda _: 1.0))

        assert {k.target for k in plan.kernels} == {"library" if priority > 0 else "native"}
        assert plan.priority == max(0, 3 * priority)


@pytest.mark.parametrize("search", [dijkstra, exhaustive])
def test_priority_comes_after_cost_and_before_the_number_of_kernels(
    search: Callable[[Problem], Plan],
) -> None:
    library = replace(LIBRARY, priority=1)
    found = [candidate(CHAIN, "a", "b", "c"), *(candidate(CHAIN, n, target=library) for n in "abc")]
    equal = priced(native_abc=3.0, library_a=1.0, library_b=1.0, library_c=1.0)
    dearer = priced(native_abc=2.5, library_a=1.0, library_b=1.0, library_c=1.0)

    assert [k.target for k in search(Problem(CHAIN, found, equal)).kernels] == ["library"] * 3
    assert [k.target for k in search(Problem(CHAIN, found, dearer)).kernels] == ["native"]


def assert_covers(plan: Plan) -> None:
    """The kernels are disjoint, cover every call, and come in an order that can run."""
    covered = 0
    for kernel in plan.kernels:
        inside = kernel.candidate.sub_graph.inside
        assert not inside & covered
        needed = plan.graph.input(inside) & plan.graph.calls
        assert not needed & ~covered
        covered |= inside
    assert covered & plan.graph.calls == plan.graph.calls
    assert is_acyclic(plan.graph, [k.candidate for k in plan.kernels])


@pytest.mark.parametrize("seed", range(40))
def test_another_target_never_makes_the_plan_dearer(seed: int) -> None:
    graph = random_graph(random.Random(seed), 8)
    costs = RandomCosts(seed)
    alone = choose(graph, propose(graph, FusionSpec(NATIVE, COMBINED)), cost=costs.__getitem__)
    both = propose(graph, FusionSpec(NATIVE, COMBINED), FusionSpec(LIBRARY, COMBINED))

    assert choose(graph, both, cost=costs.__getitem__).cost <= alone.cost + 1e-9


@pytest.mark.parametrize("seed", range(40))
def test_the_order_of_the_targets_does_not_change_the_cost(seed: int) -> None:
    graph = random_graph(random.Random(seed), 8)
    costs = RandomCosts(seed)
    found = propose(graph, FusionSpec(NATIVE, COMBINED), FusionSpec(LIBRARY, COMBINED))

    forward = choose(graph, found, cost=costs.__getitem__)
    backward = choose(graph, found[::-1], cost=costs.__getitem__)

    assert forward.cost == pytest.approx(backward.cost)


def test_neighbours_are_merged_as_far_as_they_can_run_as_one() -> None:
    diamond = graph_of({"a": ["x"], "b": ["a"], "c": ["a"], "d": ["b", "c"]}, ["d"])
    kernels = [candidate(diamond, name, target=LIBRARY) for name in "abd"]
    plan = dijkstra(Problem(diamond, [*kernels, candidate(diamond, "c")], lambda _: 1.0))

    # c, of another target, lies between a and d: only b can join one of them.
    merged = coalesce(plan, lambda k: 0.5 * len(k.nodes), lambda k: k.target == LIBRARY.name)

    assert [(k.target, sorted(k.nodes)) for k in merged.kernels] == [
        ("library", ["a", "b"]),
        ("native", ["c"]),
        ("library", ["d"]),
    ]
    assert merged.cost == pytest.approx(3.0)
    assert_covers(merged)


def test_a_merged_kernel_that_is_dearer_or_infeasible_is_not_kept() -> None:
    kernels = [candidate(CHAIN, name) for name in "abc"]
    plan = dijkstra(Problem(CHAIN, kernels, lambda _: 1.0))

    assert coalesce(plan, lambda _: 3.5, lambda _: True) == plan
    assert coalesce(plan, lambda _: Infeasible("too large"), lambda _: True) == plan
    assert len(coalesce(plan, lambda _: 3.0, lambda _: True).kernels) == 1


def test_a_merged_kernel_costs_no_more_in_whole_femtoseconds() -> None:
    """0.1 + 0.7 is less than 0.8 where floating point numbers are added."""
    costs = {"a": 0.1, "b": 0.7, "ab": 0.8, "c": 1.0, "abc": 2.0}
    kernels = [candidate(CHAIN, name) for name in "abc"]
    cost = priced(**{f"native_{nodes}": seconds for nodes, seconds in costs.items()})
    plan = dijkstra(Problem(CHAIN, kernels, cost))

    merged = coalesce(plan, cost, lambda k: "c" not in k.nodes)

    assert [sorted(k.nodes) for k in merged.kernels] == [["a", "b"], ["c"]]


def test_only_kernels_of_targets_that_ask_for_it_are_merged() -> None:
    kernels = [candidate(CHAIN, name) for name in "abc"]
    specs = [FusionSpec(NATIVE, OpCallByKind(), coalesce=True)]

    assert len(choose(CHAIN, kernels, cost=lambda _: 1.0).kernels) == 3
    assert len(choose(CHAIN, kernels, cost=lambda _: 1.0, merge=specs).kernels) == 1


@pytest.mark.parametrize("seed", range(60))
def test_a_merged_plan_still_covers_and_can_run(seed: int) -> None:
    generator = random.Random(seed)
    graph = random_graph(generator, 12)
    found = [
        CandidateKernel(graph, SubGraph(1 << i), generator.choice([NATIVE, LIBRARY]))
        for i, node in enumerate(graph.nodes)
        if node.is_call
    ]
    plan = dijkstra(Problem(graph, found, lambda _: 1.0))

    merged = coalesce(plan, lambda _: 1.0, lambda k: k.target == LIBRARY.name)

    assert_covers(merged)
    assert len(merged.kernels) <= len(plan.kernels)


def test_where_a_merged_kernel_is_refused_its_halves_are_tried() -> None:
    names = "abcdefgh"
    edges = {n: [names[i - 1] if i else "x"] for i, n in enumerate(names)}
    chain = graph_of(edges, ["h"])
    plan = dijkstra(Problem(chain, [candidate(chain, n) for n in names], lambda _: 1.0))

    def cost(kernel: CandidateKernel) -> Cost:
        spoilt = len(kernel.nodes) > 1 and "d" in kernel.nodes
        return Infeasible("d stays alone") if spoilt else 0.5 * len(kernel.nodes)

    merged = coalesce(plan, cost, lambda _: True)

    assert [sorted(k.nodes) for k in merged.kernels] == [["a", "b"], ["c"], ["d"], list("efgh")]


def test_of_halves_only_kernels_that_touch_are_tried_as_one() -> None:
    graph = graph_of({"a": ["x"], "b": ["x"], "c": ["a"], "d": ["b", "c"]}, ["d"])
    plan = dijkstra(Problem(graph, [candidate(graph, n) for n in "abcd"], lambda _: 1.0))
    tried = []

    def cost(kernel: CandidateKernel) -> Cost:
        tried.append("".join(sorted(kernel.nodes)))
        return Infeasible("too large") if len(kernel.nodes) == 4 else 1.0

    merged = coalesce(plan, cost, lambda _: True)

    assert tried == ["abcd", "cd"]
    assert [sorted(k.nodes) for k in merged.kernels] == [["a"], ["b"], ["c", "d"]]


def test_merging_keeps_to_the_limits_of_the_spec() -> None:
    kernels = [candidate(CHAIN, name) for name in "abc"]
    spec = FusionSpec(NATIVE, OpCallByKind(), Limits(max_nodes=2), coalesce=True)

    merged = choose(CHAIN, kernels, cost=lambda _: 1.0, merge=[spec])

    assert [len(k.nodes) for k in merged.kernels] == [2, 1]


def test_many_branches_side_by_side_do_not_multiply() -> None:
    # Written breadth first: all first calls, then all second, then all third.
    branches = range(40)
    edges: dict[str, list[str]] = {}
    for step, before in (("a", "x"), ("b", "a"), ("c", "b")):
        for k in branches:
            edges[f"{step}{k}"] = [f"{before}{k}" if before != "x" else "x"]
    graph = graph_of(edges, [f"c{k}" for k in branches])
    spec = FusionSpec(NATIVE, COMBINED)

    plan = choose(graph, propose(graph, spec), cost=lambda _: 1.0)

    assert len(plan.kernels) == len(branches)


def test_a_long_chain_is_merged_into_one() -> None:
    length = 1500
    edges = {f"n{i}": [f"n{i - 1}" if i else "x"] for i in range(length)}
    graph = graph_of(edges, [f"n{length - 1}"])
    plan = dijkstra(Problem(graph, [candidate(graph, n) for n in edges], lambda _: 1.0))

    assert len(coalesce(plan, lambda _: 1.0, lambda _: True).kernels) == 1


def test_candidates_of_another_graph_are_refused() -> None:
    other = graph_of({"a": ["x"], "b": ["a"], "c": ["b"]}, ["c"])
    found = propose(other, FusionSpec(NATIVE, OpCallByKind()))

    with pytest.raises(ValueError, match="another graph"):
        choose(CHAIN, found, cost=lambda kernel: 1.0)
