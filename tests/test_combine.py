"""The combining rule against a slow definition that tries every subset."""

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collage_dsl.graph import (
    Composite,
    Form,
    Graph,
    Kind,
    Node,
    OpSet,
    SubGraph,
    TupleType,
)
from collage_dsl.language import parse_graph
from collage_dsl.rules import (
    TVM_DEFAULT,
    CombineByPrimitives,
    Constants,
    InjectiveBranches,
    JoinAnything,
    KindPair,
    OpCallByKind,
    Tagged,
    Trace,
    TupleArgs,
    TupleProjections,
)
from collage_dsl.rules.combine import combine
from collage_dsl.rules.primitive import Primitive, with_constants
from collage_dsl.rules.primitive import has_side_branches as quick_has_side_branches
from tests.cases import cases
from tests.graphs import F32, graph_of, mixed_graph
from tests.slow_combine import has_side_branches, slow_combine


def combined(graph: Graph, *using, rule=None, **limits) -> set[str]:  # type: ignore[no-untyped-def]
    rule = CombineByPrimitives(rule or OpCallByKind(), using, **limits)
    found = rule.propose(graph, Trace())
    return {"".join(sorted(graph.names(s.inside))) for s in found}


FAN_IN = graph_of({"a": ["x"], "b": ["y"], "c": ["a", "b"]}, ["c"])


def test_two_producers_of_one_consumer_are_all_fused() -> None:
    found = combined(FAN_IN, KindPair(Kind.INJECTIVE, Kind.INJECTIVE))

    assert found == {"a", "b", "c", "ac", "bc", "abc"}


def test_an_anchor_takes_what_follows_but_not_what_comes_before() -> None:
    graph = graph_of({"a": ["x"], "b": ["a"], "c": ["b"]}, ["c"], b=Kind.ANCHOR)

    assert combined(graph, KindPair(Kind.ANCHOR, Kind.BROADCAST)) == {"a", "b", "c", "bc"}


def test_a_union_that_a_path_leaves_and_reenters_is_not_proposed() -> None:
    graph = graph_of({"a": ["x"], "b": ["a"], "c": ["a"], "d": ["b", "c"]}, ["d"])
    found = combined(graph, JoinAnything())

    assert "abd" not in found
    assert {"abc", "bcd", "abcd"} <= found


def test_depth_and_nodes_bound_what_is_proposed() -> None:
    graph = graph_of({"a": ["x"], "b": ["a"], "c": ["b"]}, ["c"])

    assert combined(graph, JoinAnything(), max_depth=2) == {"a", "b", "c", "ab", "bc"}
    assert combined(graph, JoinAnything(), max_nodes=1) == {"a", "b", "c"}


def test_composites_stay_separate_inside_a_union() -> None:
    rule = CombineByPrimitives(Tagged("lib.op", OpCallByKind()), (JoinAnything(),))
    graph = graph_of({"a": ["x"], "b": ["a"]}, ["b"])
    largest = max(rule.propose(graph, Trace()), key=lambda s: s.inside.bit_count())

    assert largest.composites == (
        Composite("lib.op", graph.set_of("a")),
        Composite("lib.op", graph.set_of("b")),
    )


def tuples() -> Graph:
    """c = concat((a, b)), a and b from x; s splits c into p and q."""
    pair = TupleType((F32, F32))
    nodes = [
        Node("x", Form.INPUT, F32),
        Node("w", Form.CONSTANT, F32),
        Node("a", Form.CALL, F32, (0,), "nn.relu", kind=Kind.ELEMENTWISE),
        Node("b", Form.CALL, F32, (0, 1), "add", kind=Kind.ELEMENTWISE),
        Node("t", Form.TUPLE, pair, (2, 3)),
        Node("c", Form.CALL, F32, (4,), "concat", kind=Kind.INJECTIVE),
        Node("s", Form.CALL, pair, (5,), "split", kind=Kind.INJECTIVE),
        Node("p", Form.PROJECTION, F32, (6,), value=0),
        Node("q", Form.PROJECTION, F32, (6,), value=1),
    ]
    return Graph(nodes, [7, 8])


def test_tuple_args_join_a_consumer_its_tuple_and_any_of_the_producers() -> None:
    found = combined(tuples(), TupleArgs())

    assert {"ct", "act", "bct", "abct"} <= found
    assert "cs" not in found


def test_the_same_value_twice_in_a_tuple_is_joined_once() -> None:
    nodes = [
        Node("x", Form.INPUT, F32),
        Node("a", Form.CALL, F32, (0,), "nn.relu", kind=Kind.ELEMENTWISE),
        Node("t", Form.TUPLE, TupleType((F32, F32)), (1, 1)),
        Node("c", Form.CALL, F32, (2,), "concat", kind=Kind.INJECTIVE),
    ]
    assert "act" in combined(Graph(nodes, [3]), TupleArgs())


def test_projections_are_joined_to_the_call_that_gives_the_tuple() -> None:
    assert {"s", "ps", "qs", "pqs"} <= combined(tuples(), TupleProjections())


def test_constants_are_bound_beside_the_candidate_that_leaves_them_out() -> None:
    graph = tuples()
    rule = CombineByPrimitives(OpCallByKind(), (Constants(),))
    adds = [s for s in rule.propose(graph, Trace()) if s.inside == graph.set_of("b")]

    assert [graph.names(s.constants) for s in adds] == [frozenset(), {"w"}]


def chain_of_additions(length: int) -> Graph:
    """`length` calls, one after the other, each of which adds a constant of its own."""
    lines = [f"w{i} = const f32[4]; y{i + 1} = add(y{i}, w{i});" for i in range(length)]
    return parse_graph("graph { y0: f32[4]; " + " ".join(lines) + f" return y{length}; }}")


def test_a_union_has_all_its_constants_inside_or_none() -> None:
    graph = chain_of_additions(12)
    rule = CombineByPrimitives(OpCallByKind(), (JoinAnything(), Constants()))
    found = list(rule.propose(graph, Trace()))

    assert len({each.inside for each in found}) == 12 * 13 // 2
    assert len(found) == 2 * 12 * 13 // 2
    for each in found:
        assert each.constants in (0, graph.input(each.inside) & graph.constants)


def test_a_constant_that_the_rule_binds_is_inside_in_both() -> None:
    graph = chain_of_additions(2)
    y1, y2 = graph.set_of("y1"), graph.set_of("y2")
    w0, w1 = graph.set_of("w0"), graph.set_of("w1")

    seeds = [SubGraph(y1, w0), SubGraph(y2), SubGraph(y2, w1)]
    unions = combine(graph, seeds, (JoinAnything(),), max_depth=None, max_nodes=None)
    found = list(with_constants(graph, unions))

    assert [each.constants for each in found if each.inside == y1] == [w0]
    assert [each.constants for each in found if each.inside == y2] == [0, w1]
    assert [each.constants for each in found if each.inside == y1 | y2] == [w0, w0 | w1]


# Side branches: `t` is injective, the letters of a candidate are its calls.

INJECTIVE = KindPair(Kind.INJECTIVE, Kind.INJECTIVE)


def side_branch(*, after: dict[str, list[str]], **kinds: Kind) -> set[str]:
    """What is combined where `e` leads to `a` through `t` and past it, and then comes `after`."""
    edges = {"e": ["x"], "t": ["e"], "a": ["e", "t"], **after}
    graph = graph_of(edges, [next(reversed(edges))], t=Kind.INJECTIVE, **kinds)
    return combined(graph, INJECTIVE, InjectiveBranches())


def test_a_region_with_a_side_branch_is_joined_with_the_reduction_below() -> None:
    found = side_branch(after={"r": ["a"]}, r=Kind.REDUCE)

    assert {"aert"} == {each for each in found if "r" in each and len(each) > 1}


def test_a_region_with_a_side_branch_is_joined_with_the_anchor_above() -> None:
    found = side_branch(after={"m": ["y"], "r": ["a", "m"]}, m=Kind.ANCHOR)

    assert {"aemrt"} == {each for each in found if "m" in each and len(each) > 1}


def test_no_region_is_joined_with_the_anchor_below() -> None:
    found = side_branch(after={"m": ["a"]}, m=Kind.ANCHOR)

    assert "aemt" not in found


def test_an_injective_call_at_either_end_is_on_no_side_branch() -> None:
    edges = {"e": ["x"], "t": ["e"], "a": ["e", "t"], "u": ["a"], "r": ["u"]}
    graph = graph_of(edges, ["r"], t=Kind.INJECTIVE, u=Kind.INJECTIVE, r=Kind.REDUCE)
    found = combined(graph, INJECTIVE, InjectiveBranches())

    assert "aetu" in found
    assert not {each for each in found if "r" in each and len(each) > 1}


def test_a_region_of_two_exits_has_no_side_branch() -> None:
    edges = {"e": ["x"], "t": ["e"], "a": ["e", "t"], "b": ["e"], "r": ["a"]}
    graph = graph_of(edges, ["r", "b"], t=Kind.INJECTIVE, r=Kind.REDUCE)
    found = combined(graph, INJECTIVE, InjectiveBranches())

    assert "abet" in found
    assert not {each for each in found if "r" in each and "b" in each}


def test_a_call_that_nothing_uses_is_on_no_side_branch() -> None:
    graph = graph_of({"a": ["x"], "t": ["a"], "r": ["a"]}, ["r"], t=Kind.INJECTIVE, r=Kind.REDUCE)
    found = combined(graph, INJECTIVE, InjectiveBranches())

    assert "at" in found
    assert "art" not in found


def branching(generator: random.Random, calls: int, *one: Kind) -> Graph:
    """Calls of the last two values, broadcasting or injective, but for `one` of that kind."""
    names, edges, kinds = ["x"], {}, {}
    for name in string.ascii_lowercase[:calls]:
        edges[name] = names[-2:]
        kinds[name] = generator.choice([Kind.ELEMENTWISE, Kind.BROADCAST, Kind.INJECTIVE])
        names.append(name)
    for kind in one:
        kinds[generator.choice(list(edges))] = kind
    used = {operand for operands in edges.values() for operand in operands}
    return graph_of(edges, [name for name in edges if name not in used], **kinds)


def test_side_branches_are_those_that_the_paths_say() -> None:
    answers = []
    for seed in range(40):
        graph = branching(random.Random(seed), 7)
        for found in CombineByPrimitives(OpCallByKind(), (INJECTIVE,)).propose(graph, Trace()):
            region, below = _Side(graph, found.inside), _Side(graph, found.inside)
            if region.kind is Kind.INJECTIVE and graph.exit(found.inside).bit_count() == 1:
                below.kind = Kind.REDUCE
                answers.append(InjectiveBranches().joins(graph, region, below))
                assert answers[-1] == has_side_branches(graph, found.inside)

    assert answers.count(True) > 5
    assert answers.count(False) > 100


class _Side:
    def __init__(self, graph: Graph, inside: OpSet) -> None:
        self.sub_graph = SubGraph(inside)
        self.kind = graph.kind(inside)
        self.has_side_branches = quick_has_side_branches(graph, inside, graph.exit(inside))
        self.inputs = graph.input(inside) & graph.computed
        self.outputs = graph.output(inside)


PRIMITIVES = (
    KindPair(Kind.ANCHOR, Kind.BROADCAST),
    KindPair(Kind.BROADCAST, Kind.REDUCE),
    KindPair(Kind.INJECTIVE, Kind.INJECTIVE),
    JoinAnything(),
    InjectiveBranches(),
    TupleArgs(),
    TupleProjections(),
    Constants(),
)
"""All that there are; `kind` is one for each pair of kinds, of which these are the usual ones."""

GRAPHS = st.builds(mixed_graph, st.randoms(use_true_random=False), st.integers(3, 10))
BOUNDS = st.one_of(st.none(), st.integers(1, 4))


def assert_as_defined(graph: Graph, using: tuple[Primitive, ...], **limits: int | None) -> None:
    rule = CombineByPrimitives(OpCallByKind(), using, **limits)
    found = list(rule.propose(graph, Trace()))

    assert len(found) == len(set(found))
    assert set(found) == slow_combine(graph, using, **limits)


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda p: type(p).__name__)
@cases(6)
@given(graph=GRAPHS)
def test_each_primitive_joins_what_its_definition_says(graph: Graph, primitive: Primitive) -> None:
    assert_as_defined(graph, (primitive,))


@cases(20)
@given(graph=GRAPHS, using=st.sets(st.sampled_from(PRIMITIVES)), depth=BOUNDS, nodes=BOUNDS)
def test_together_they_join_every_subset_that_the_definition_says(
    graph: Graph, using: set[Primitive], depth: int | None, nodes: int | None
) -> None:
    ordered = tuple(each for each in PRIMITIVES if each in using)
    assert_as_defined(graph, ordered, max_depth=depth, max_nodes=nodes)


@cases(20)
@given(
    graph=GRAPHS
    | st.builds(
        branching,
        st.randoms(use_true_random=False),
        st.integers(4, 9),
        st.sampled_from([Kind.REDUCE, Kind.ANCHOR]),
    )
)
def test_what_tvm_fuses_is_combined_as_the_definition_says(graph: Graph) -> None:
    assert_as_defined(graph, TVM_DEFAULT)
