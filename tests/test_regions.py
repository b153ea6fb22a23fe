"""Regions that a search prices: targets that merge their kernels, beside others."""

import random
from dataclasses import dataclass, replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collage_dsl.cost import Cost, Infeasible
from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.steps import MIXED, choose, propose, searched
from collage_dsl.graph import CandidateKernel, Graph
from collage_dsl.rules import FusionSpec, Limits, OpCallByKind, Union
from collage_dsl.search import NoPlanError, NoReporter, Plan, Problem, exhaustive
from tests.cases import cases
from tests.graphs import LIBRARY, NATIVE, graph_of, mixed_graph
from tests.test_engine_properties import ORDERED, RANDOM, SINGLE, UNORDERED, assert_runs, rank

OTHER = replace(LIBRARY, name="other", compiler="other")


@dataclass(frozen=True)
class Costs:
    """
    Whole numbers for kernels: any, or those of a target whose merged kernels save by chance. Some
    kernels are infeasible.
    """

    seed: int
    saves: bool

    def __call__(self, kernel: CandidateKernel) -> Cost:
        nodes = sorted(kernel.nodes)
        generator = random.Random(f"{self.seed} {kernel.target} {nodes}")
        if len(nodes) > 1 and generator.random() < 0.1:
            return Infeasible("by chance")
        if not self.saves:
            return float(generator.randint(0, 2 * len(nodes)))
        alone = sum(random.Random(f"{self.seed} {kernel.target} {n}").randint(1, 9) for n in nodes)
        return float(3 + alone * generator.randint(4, 10) // 10)


SPECS = st.builds(
    lambda target, rules, limits, merges: FusionSpec(target, Union(rules), limits, coalesce=merges),
    st.sampled_from([NATIVE, LIBRARY, OTHER]),
    st.lists(st.sampled_from([SINGLE, *UNORDERED, *ORDERED]), min_size=1, max_size=2).map(tuple),
    st.builds(Limits, max_exits=st.sampled_from([1, 2, None]), taps=st.booleans()),
    st.booleans(),
)


@cases(40)
@given(
    graph=st.builds(mixed_graph, RANDOM, st.integers(1, 10)),
    specs=st.lists(SPECS, min_size=2, max_size=3, unique_by=lambda spec: spec.name),
    cost=st.builds(Costs, st.integers(0, 2**32), st.booleans()),
)
def test_more_targets_never_cost_more(graph: Graph, specs: list[FusionSpec], cost: Costs) -> None:
    plans: dict[frozenset[str], Plan] = {}
    for size in range(1, len(specs) + 1):
        for some in combinations(specs, size):
            try:
                plan = choose(graph, propose(graph, *some), cost=cost, merge=some)
            except NoPlanError:
                continue
            plans[frozenset(spec.name for spec in some)] = plan
            assert_runs(plan)
            assert plan.record is not None
            assert plan.record.proven
            assert plan.record.cost == plan.cost

    for fewer, plan in plans.items():
        assert all(plans[more].cost <= plan.cost for more in plans if fewer < more)


@cases(30)
@given(
    graph=st.builds(mixed_graph, RANDOM, st.integers(1, 6)),
    specs=st.lists(SPECS, min_size=2, max_size=3, unique_by=lambda spec: spec.name),
    cost=st.builds(Costs, st.integers(0, 2**32), st.booleans()),
)
def test_no_cover_of_what_was_priced_is_better(
    graph: Graph, specs: list[FusionSpec], cost: Costs
) -> None:
    found = propose(graph, *specs)
    priced = list(found)

    class Listener(NoReporter):
        def priced(self, candidate: CandidateKernel, cost: Cost) -> None:
            priced.append(candidate)

    try:
        plan = choose(graph, found, cost=cost, merge=specs, reporter=Listener())
    except NoPlanError:
        return

    assert set(plan.candidates) <= set(priced)
    assert rank(plan) == rank(exhaustive(Problem(graph, priced, cost)))


NAMES = [f"n{i:02}" for i in range(24)]
CHAIN = graph_of({n: [NAMES[i - 1] if i else "x"] for i, n in enumerate(NAMES)}, [NAMES[-1]])
SPEC = FusionSpec(LIBRARY, OpCallByKind(), Limits(max_exits=None, taps=True), coalesce=True)
OURS = FusionSpec(NATIVE, OpCallByKind())


def library_is_cheap_as_a_whole(kernel: CandidateKernel, ours: dict[str, float]) -> float:
    """
    For the library, 10 a kernel and 1 a call; for us 8 a kernel, or what `ours` says. So a call
    alone is cheaper for us, but 10 calls in one are cheaper for the library.
    """
    if kernel.target == LIBRARY.name:
        slow = sum(20 for name in kernel.nodes if name in ours)
        return 10 + len(kernel.nodes) + slow
    (name,) = kernel.nodes
    return ours.get(name, 8.0)


@pytest.mark.parametrize(
    ("ours", "kernels"),
    [
        ({}, ["library"]),
        ({"n09": 2.0}, ["library", "native", "library"]),
        ({"n09": 2.0, "n17": 2.0}, ["library", "native", "library", "native", "library"]),
        (dict.fromkeys(NAMES[15:], 2.0), ["library", *["native"] * 9]),
        (dict.fromkeys(NAMES[:4], 2.0), [*["native"] * 4, "library"]),
    ],
    ids=["all", "all but one", "all but two", "up to here", "from here"],
)
def test_a_library_runs_all_but_what_is_quicker_elsewhere(
    ours: dict[str, float], kernels: list[str]
) -> None:
    def cost(kernel: CandidateKernel) -> float:
        return library_is_cheap_as_a_whole(kernel, ours)

    plans = searched(CHAIN, [OURS, SPEC], cost, lookup()).plans
    mixed = plans[MIXED]

    assert isinstance(mixed, Plan)
    assert [kernel.target for kernel in mixed.kernels] == kernels
    assert all(mixed.cost <= plan.cost for plan in plans.values() if isinstance(plan, Plan))


def test_few_regions_are_priced() -> None:
    asked: list[CandidateKernel] = []

    def cost(kernel: CandidateKernel) -> float:
        asked.append(kernel)
        return library_is_cheap_as_a_whole(kernel, {"n09": 2.0, "n17": 2.0})

    choose(CHAIN, propose(CHAIN, OURS, SPEC), cost=cost, merge=[SPEC])

    assert len(asked) == len(set(asked))
    assert sum(len(kernel.nodes) > 1 for kernel in asked) <= 8
