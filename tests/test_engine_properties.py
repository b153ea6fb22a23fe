"""What holds of the candidates and plans of any specs, on graphs of any form."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collage_dsl.cost import Cost, Infeasible
from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.steps import MIXED, choose, propose, searched
from collage_dsl.graph import CandidateKernel, Graph, Kind, SubGraph, members, opset
from collage_dsl.language import parse_graph
from collage_dsl.rules import (
    TVM_DEFAULT,
    CombineByPrimitives,
    Constants,
    FusionRule,
    FusionSpec,
    Horizontal,
    JoinAnything,
    Limits,
    MaxCoalesce,
    OnlyValid,
    OpCallByKind,
    Tagged,
    TupleArgs,
    TupleProjections,
    Union,
    Vertical,
)
from collage_dsl.search import Hints, Plan, Problem, exhaustive
from collage_dsl.search.execution_order import CyclicPlanError, in_execution_order
from tests.cases import cases
from tests.graphs import LIBRARY, NATIVE, candidate, mixed_graph
from tests.slow_combine import is_possible

SINGLE = OpCallByKind()
LABELLED = Tagged("lib.op", OpCallByKind((Kind.ELEMENTWISE, Kind.INJECTIVE, Kind.ANCHOR)))
UNORDERED: tuple[FusionRule, ...] = (
    CombineByPrimitives(SINGLE, TVM_DEFAULT, max_depth=4),
    CombineByPrimitives(LABELLED, (JoinAnything(), TupleArgs()), max_nodes=3),
    CombineByPrimitives(SINGLE, (TupleProjections(), Constants(), JoinAnything()), max_depth=2),
    OnlyValid(CombineByPrimitives(SINGLE, (JoinAnything(),)), Limits(max_exits=2, taps=True)),
    LABELLED,
)
"""Rules that propose the same whatever the order of the nodes."""
ORDERED: tuple[FusionRule, ...] = (
    CombineByPrimitives(SINGLE, (*TVM_DEFAULT, Constants()), max_splits=1),
    CombineByPrimitives(LABELLED, (JoinAnything(),), max_splits=2),
    MaxCoalesce(LABELLED),
    MaxCoalesce(Union((SINGLE, UNORDERED[1]))),
    Horizontal(OpCallByKind((Kind.ELEMENTWISE, Kind.ANCHOR)), 3),
    Vertical(OpCallByKind((Kind.ANCHOR,)), Kind.INJECTIVE, Kind.INJECTIVE),
)
"""Rules that choose greedily in graph order, or look no further than so far in it."""

RANDOM = st.randoms(use_true_random=False)
GRAPHS = st.builds(mixed_graph, RANDOM, st.integers(1, 9))
LIMITS = st.builds(
    Limits,
    max_exits=st.sampled_from([1, 2, None]),
    max_nodes=st.sampled_from([None, 3]),
    taps=st.booleans(),
)


def specs(rules: Sequence[FusionRule]) -> st.SearchStrategy[tuple[FusionSpec, FusionSpec]]:
    """Two of some rules each, the first of which has every call besides."""
    some = st.lists(st.sampled_from(rules), max_size=3, unique=True).map(tuple)
    native = st.builds(
        lambda rules, limits, priority: FusionSpec(
            replace(NATIVE, priority=priority), Union((SINGLE, *rules)), limits
        ),
        some,
        LIMITS,
        st.integers(-1, 1),
    )
    library = st.builds(lambda r, limits: FusionSpec(LIBRARY, Union(r), limits), some, LIMITS)
    return st.tuples(native, library)


@dataclass(frozen=True)
class Costs:
    """
    A cost for each candidate, by its target and the names of its nodes alone. Whole numbers, so
    that sums are equal in any order, and many plans cost the same; some candidates are infeasible.
    """

    seed: int

    def __call__(self, kernel: CandidateKernel) -> Cost:
        generator = random.Random(f"{self.seed} {kernel.target} {sorted(kernel.nodes)}")
        if len(kernel.nodes) > 1 and generator.random() < 0.1:
            return Infeasible("by chance")
        return float(generator.randint(0, 2 * len(kernel.nodes)))


COSTS = st.builds(Costs, st.integers(0, 2**32))


def rank(plan: Plan) -> tuple[float, int, int]:
    """By which plans are compared; less is better."""
    return plan.cost, -plan.priority, len(plan.kernels)


@cases(40)
@given(graph=GRAPHS, given_specs=specs(UNORDERED + ORDERED))
def test_candidates_are_distinct_valid_and_in_order(
    graph: Graph, given_specs: tuple[FusionSpec, FusionSpec]
) -> None:
    for spec in given_specs:
        found = propose(graph, spec)
        limits = spec.limits

        assert len(set(found)) == len(found)
        assert [c.sub_graph.order for c in found] == sorted(c.sub_graph.order for c in found)
        for each in found:
            inside = each.sub_graph.inside
            exits = [i for i in members(inside) if is_exit(graph, i, inside)]
            assert is_possible(graph, inside, limits.max_depth, limits.max_nodes)
            assert limits.max_exits is None or len(exits) <= limits.max_exits
            assert limits.taps or not any(graph.users_of[i] & inside for i in exits)
            assert not each.sub_graph.constants & ~graph.constants


def is_exit(graph: Graph, index: int, inside: int) -> bool:
    return index in graph.outputs or bool(graph.users_of[index] & ~inside)


@cases(40)
@given(graph=GRAPHS, given_specs=specs(UNORDERED + ORDERED), cost=COSTS, merges=st.booleans())
def test_the_kernels_of_a_plan_are_disjoint_have_every_call_and_can_run_in_order(
    graph: Graph, given_specs: tuple[FusionSpec, FusionSpec], cost: Costs, merges: bool
) -> None:
    merge = [replace(spec, coalesce=True) for spec in given_specs] if merges else []
    plan = choose(graph, propose(graph, *given_specs), cost=cost, merge=merge)

    assert_runs(plan)


def assert_runs(plan: Plan) -> None:
    """Run the plan: a kernel once all that it takes is there, and what is in no kernel at once."""
    graph = plan.graph
    insides = [each.sub_graph.inside for each in plan.candidates]
    there = opset(i for i in range(len(graph)) if not graph.computed >> i & 1)
    between = [i for i in members(graph.free) if not any(inside >> i & 1 for inside in insides)]
    for inside in insides:
        there |= computed_between(graph, between, there)
        assert not there & inside, "computed twice"
        assert not graph.input(inside) & ~there, "not there yet"
        there |= inside
    there |= computed_between(graph, between, there)
    assert there == (1 << len(graph)) - 1, "not computed"


def computed_between(graph: Graph, between: Sequence[int], there: int) -> int:
    for index in between:  # each comes after what it takes
        if not graph.inputs_of[index] & ~there:
            there |= 1 << index
    return there


DIRECT = "x: f32[4]; a = exp(x); b = tanh(x); c = nn.relu(a); d = nn.relu(b); return c, d;"
THROUGH_TUPLES = """
x: f32[4]; a = exp(x); b = tanh(x);
t = (a, a); u = (b, b);
c = concat(t) [axis = 0]; d = concat(u) [axis = 0];
return c, d;
"""


@pytest.mark.parametrize("text", [DIRECT, THROUGH_TUPLES])
def test_two_kernels_that_wait_for_each_other_are_not_taken_together(text: str) -> None:
    """Each by itself has two exits, is convex, and is valid: {a, d} and {b, c}."""
    graph = parse_graph(text)
    pair = [candidate(graph, "a", "d"), candidate(graph, "b", "c")]
    assert not any(Limits(max_exits=2).refusal(graph, each.sub_graph) for each in pair)

    single = [candidate(graph, name) for name in "abcd"]
    for order in (pair + single, single + pair):
        plan = choose(graph, order, cost=lambda kernel: 0.1 if len(kernel.nodes) == 2 else 1.0)
        assert sorted(len(kernel.nodes) for kernel in plan.kernels) == [1, 1, 2]
        assert_runs(plan)


@cases(60)
@given(graph=GRAPHS, generator=RANDOM)
def test_cheap_kernels_of_any_nodes_are_taken_only_as_far_as_they_can_run(
    graph: Graph, generator: random.Random
) -> None:
    single = [1 << i for i in members(graph.calls)]
    computed = list(members(graph.computed))
    large = [
        opset(generator.sample(computed, k=min(size, len(computed))))
        for size in (2, 2, 3, 4)
        for _ in range(6)
    ]
    valid = (inside for inside in large if is_possible(graph, inside, None, None))
    found = [CandidateKernel(graph, SubGraph(inside), NATIVE) for inside in (*valid, *single)]

    plan = choose(graph, found, cost=lambda kernel: 1 / len(kernel.nodes) ** 2)

    assert_runs(plan)


@cases(40)
@given(
    graph=GRAPHS,
    given_specs=specs(UNORDERED + ORDERED),
    cost=COSTS,
    rule=st.sampled_from(UNORDERED + ORDERED),
)
def test_a_target_or_a_rule_more_never_makes_the_plan_dearer(
    graph: Graph, given_specs: tuple[FusionSpec, FusionSpec], cost: Costs, rule: FusionRule
) -> None:
    native, library = given_specs
    more = replace(native, rule=Union((rule, native.rule)))
    wider = replace(native, limits=Limits(max_exits=None, taps=True))

    alone = choose(graph, propose(graph, native), cost=cost).cost

    for larger in ([native, library], [more], [wider]):
        assert choose(graph, propose(graph, *larger), cost=cost).cost <= alone


@cases(40)
@given(
    graph=GRAPHS,
    given_specs=specs(UNORDERED + ORDERED),
    cost=COSTS,
    part=st.sampled_from([0.001, 0.3, 0.9]),
    merges=st.booleans(),
)
def test_with_predictions_the_plan_over_all_targets_is_never_dearer_than_one_of_a_target(
    graph: Graph,
    given_specs: tuple[FusionSpec, FusionSpec],
    cost: Costs,
    part: float,
    merges: bool,
) -> None:
    native, library = given_specs

    def bound(kernel: CandidateKernel) -> float:
        seconds = cost(kernel)
        return 0.0 if isinstance(seconds, Infeasible) else part * seconds

    plans = searched(
        graph,
        [native, replace(library, coalesce=merges)],
        cost,
        lookup(),
        hints=Hints(bound, predicts=True),
    ).plans

    mixed = plans.pop(MIXED)
    assert isinstance(mixed, Plan)
    assert all(mixed.cost <= each.cost for each in plans.values() if isinstance(each, Plan))


@cases(40)
@given(graph=GRAPHS, given_specs=specs(UNORDERED), cost=COSTS, generator=RANDOM)
def test_no_order_of_targets_rules_and_nodes_changes_what_a_plan_is_worth(
    graph: Graph,
    given_specs: tuple[FusionSpec, FusionSpec],
    cost: Costs,
    generator: random.Random,
) -> None:
    found = propose(graph, *given_specs)
    worth = rank(choose(graph, found, cost=cost))

    def shuffled(spec: FusionSpec) -> FusionSpec:
        return replace(spec, rule=reordered(spec.rule, generator))

    for other in (graph, renumbered(graph, generator)):
        again = propose(other, *(shuffled(spec) for spec in reversed(given_specs)))
        assert {named(each) for each in again} == {named(each) for each in found}
        assert rank(choose(other, again, cost=cost)) == worth


def named(found: CandidateKernel) -> tuple[object, ...]:
    """A candidate without the numbers of its nodes."""
    graph = found.graph
    composites = {(c.label, graph.names(c.inside)) for c in found.sub_graph.composites}
    return found.target, found.nodes, found.constants, frozenset(composites)


def reordered(rule: FusionRule, generator: random.Random) -> FusionRule:
    """The same rules and primitives in another order."""
    match rule:
        case Union(rules):
            each = [reordered(other, generator) for other in rules]
            generator.shuffle(each)
            return Union(tuple(each))
        case CombineByPrimitives(using=using):
            primitives = list(using)
            generator.shuffle(primitives)
            return replace(rule, using=tuple(primitives))
        case _:
            return rule


def renumbered(graph: Graph, generator: random.Random) -> Graph:
    """The same nodes in another order, each after its inputs."""
    order: list[int] = []
    while len(order) < len(graph):
        ready = [
            i for i in range(len(graph)) if i not in order and {*graph.nodes[i].inputs} <= {*order}
        ]
        order.append(generator.choice(ready))
    place = {index: new for new, index in enumerate(order)}
    nodes = [graph.nodes[i] for i in order]
    moved = [replace(node, inputs=tuple(place[i] for i in node.inputs)) for node in nodes]
    return Graph(moved, [place[i] for i in graph.outputs])


@cases(30)
@given(
    graph=st.builds(mixed_graph, RANDOM, st.integers(1, 6)),
    given_specs=specs(UNORDERED + ORDERED),
    cost=COSTS,
)
def test_of_all_covers_the_plan_is_first_by_cost_then_priority_then_number_of_kernels(
    graph: Graph, given_specs: tuple[FusionSpec, FusionSpec], cost: Costs
) -> None:
    found = propose(graph, *given_specs)

    assert rank(choose(graph, found, cost=cost)) == rank(exhaustive(Problem(graph, found, cost)))


def test_kernels_that_wait_for_each_other_have_no_order() -> None:
    graph = parse_graph(DIRECT)
    pair = [candidate(graph, "a", "d"), candidate(graph, "b", "c")]

    with pytest.raises(CyclicPlanError, match=r"kernels exp\+nn\.relu, tanh\+nn\.relu"):
        in_execution_order(graph, pair)
