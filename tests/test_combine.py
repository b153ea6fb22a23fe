"""The combining rule against a slow definition that tries every subset."""

import random

import pytest

from collage_dsl.graph import (
    Composite,
    Form,
    Graph,
    Kind,
    Node,
    OpSet,
    SubGraph,
    TupleType,
    members,
    opset,
)
from collage_dsl.rules import (
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
from tests.graphs import F32, graph_of, random_graph


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


def paths(graph: Graph, start: int, inside: OpSet) -> list[OpSet]:
    """The nodes on each path inside that leads from `start` to a node that nothing inside uses."""
    further = [
        path for i in members(graph.users_of[start] & inside) for path in paths(graph, i, inside)
    ]
    return [path | 1 << start for path in further] or [1 << start]


def has_side_branches(graph: Graph, inside: OpSet) -> bool:
    """The same of a region of one exit, by listing the paths from every call."""
    on_branch = 0
    for start in members(inside):
        if graph.nodes[start].kind <= Kind.BROADCAST:
            found = paths(graph, start, inside)
            on_branch |= opset(
                i for path in found for i in members(path) if any(not p >> i & 1 for p in found)
            )
    injective = opset(i for i in members(inside) if graph.nodes[i].kind is Kind.INJECTIVE)
    return not injective & ~on_branch


def crossing(generator: random.Random) -> Graph:
    """Seven calls of at most injective kind, each of which takes one or two of the last three."""
    names = ["x"]
    edges, kinds = {}, {}
    for name in "abcdefg":
        edges[name] = generator.sample(names[-3:], k=min(len(names), generator.randint(1, 2)))
        kinds[name] = generator.choice((Kind.ELEMENTWISE, Kind.BROADCAST, Kind.INJECTIVE))
        names.append(name)
    used = {operand for operands in edges.values() for operand in operands}
    return graph_of(edges, [name for name in edges if name not in used], **kinds)


def test_side_branches_are_those_that_the_paths_say() -> None:
    answers = []
    for seed in range(40):
        graph = crossing(random.Random(seed))
        for found in CombineByPrimitives(OpCallByKind(), (INJECTIVE,)).propose(graph, Trace()):
            region, below = _Side(graph, found.inside), _Side(graph, found.inside)
            if region.kind is Kind.INJECTIVE and graph.exit(found.inside).bit_count() == 1:
                below.kind = Kind.REDUCE
                answers.append(InjectiveBranches().joins(graph, region, below))
                assert answers[-1] == has_side_branches(graph, found.inside)

    assert answers.count(True) > 5
    assert answers.count(False) > 100


def slow_closure(graph: Graph, primitive: KindPair | JoinAnything) -> set[OpSet]:
    """
    Every convex set that some order of joining reaches, one pair at a time, tried for every
    pair of known sets until nothing new appears.
    """
    known = {1 << i for i in members(graph.calls)}
    while True:
        new = {
            a | b
            for a in known
            for b in known
            if not a & b
            and graph.output(a) & b
            and graph.is_convex(a | b)
            and primitive.joins(graph, _Side(graph, a), _Side(graph, b))
        }
        if new <= known:
            return known
        known |= new


class _Side:
    def __init__(self, graph: Graph, inside: OpSet) -> None:
        self.sub_graph = SubGraph(inside)
        self.kind = graph.kind(inside)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize(
    "primitive",
    [
        JoinAnything(),
        KindPair(Kind.ANCHOR, Kind.BROADCAST),
        KindPair(Kind.INJECTIVE, Kind.INJECTIVE),
    ],
    ids=lambda p: type(p).__name__,
)
def test_combining_equals_the_slow_definition(
    seed: int, primitive: KindPair | JoinAnything
) -> None:
    graph = random_graph(random.Random(seed), 7)
    rule = CombineByPrimitives(OpCallByKind(), (primitive,))
    found = [s.inside for s in rule.propose(graph, Trace())]

    assert len(found) == len(set(found))
    assert set(found) == slow_closure(graph, primitive)
