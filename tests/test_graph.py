"""Facts of sub-graphs, and sub-graphs as graphs of their own."""

import random
import sys
from dataclasses import replace

import numpy as np
import pytest

from collage_dsl.graph import (
    Composite,
    Form,
    Graph,
    Kind,
    Node,
    OpaqueType,
    SubGraph,
    TensorType,
    TupleType,
    compact,
    compact_of,
    expanded,
    extract,
    fingerprint,
    first,
    joined,
    members,
    members_of,
    opset,
    tensors,
    without_weights,
)
from tests.graphs import F32, graph_of, random_graph

DIAMOND = graph_of({"a": ["x"], "b": ["a"], "c": ["a"], "d": ["b", "c"]}, ["d"])


def named(graph: Graph, nodes: int) -> str:
    return "".join(sorted(graph.names(nodes)))


def test_entry_exit_input_and_output_of_a_sub_graph() -> None:
    inside = DIAMOND.set_of("b", "c")

    assert named(DIAMOND, DIAMOND.entry(inside)) == "bc"
    assert named(DIAMOND, DIAMOND.exit(inside)) == "bc"
    assert named(DIAMOND, DIAMOND.input(inside)) == "a"
    assert named(DIAMOND, DIAMOND.output(inside)) == "d"


def test_what_the_function_returns_is_an_exit() -> None:
    assert named(DIAMOND, DIAMOND.exit(DIAMOND.set_of("a", "b", "c", "d"))) == "d"


def test_a_path_that_leaves_and_comes_back_is_not_convex() -> None:
    assert not DIAMOND.is_convex(DIAMOND.set_of("a", "b", "d"))
    assert DIAMOND.is_convex(DIAMOND.set_of("a", "b", "c", "d"))
    assert DIAMOND.is_convex(DIAMOND.set_of("b", "c"))


def test_a_tap_feeds_both_sides() -> None:
    pair, everything = DIAMOND.set_of("a", "b"), DIAMOND.set_of("a", "b", "c", "d")

    assert named(DIAMOND, opset(DIAMOND.taps(members(DIAMOND.exit(pair)), pair))) == "a"
    assert not DIAMOND.taps(members(DIAMOND.exit(everything)), everything)


def test_depth_counts_operator_calls_only() -> None:
    nodes = [
        Node("x", Form.INPUT, F32),
        Node("w", Form.CONSTANT, F32),
        Node("s", Form.CALL, TupleType((F32, F32)), (0, 1), "split"),
        Node("p", Form.PROJECTION, F32, (2,), value=0),
        Node("q", Form.PROJECTION, F32, (2,), value=1),
        Node("t", Form.TUPLE, TupleType((F32, F32)), (3, 4)),
        Node("c", Form.CALL, F32, (5,), "concat"),
    ]
    graph = Graph(nodes, [6])

    assert graph.depth(graph.computed) == 2
    assert graph.depth(graph.set_of("p")) == 0


def test_the_kind_of_a_sub_graph_is_its_greatest() -> None:
    graph = graph_of({"a": ["x"], "b": ["a"]}, ["b"], a=Kind.REDUCE)

    assert graph.kind(graph.set_of("a", "b")) is Kind.REDUCE
    assert graph.kind(graph.set_of("b")) is Kind.ELEMENTWISE


@pytest.mark.parametrize("seed", range(30))
def test_convexity_is_what_walking_every_path_says(seed: int) -> None:
    generator = random.Random(seed)
    graph = random_graph(generator, 8)
    calls = list(members(graph.calls))
    inside = opset(generator.sample(calls, k=generator.randint(1, len(calls))))

    def comes_back(index: int, left: bool) -> bool:
        for user in members(graph.users_of[index]):
            outside = not inside >> user & 1
            if (left and not outside) or comes_back(user, left or outside):
                return True
        return False

    assert graph.is_convex(inside) == (not any(comes_back(i, False) for i in members(inside)))


@pytest.mark.parametrize("seed", range(30))
def test_convexity_is_the_same_where_nodes_lie_far_apart(seed: int) -> None:
    generator = random.Random(seed)
    near = random_graph(generator, 8)
    gap = generator.choice([100, 300, 1_500])
    spread: list[Node] = []
    for number, node in enumerate(near.nodes):
        spread += [Node(f"p{number}.{place}", Form.INPUT, F32) for place in range(1, gap)]
        spread.append(replace(node, inputs=tuple(i * gap + gap - 1 for i in node.inputs)))
    far = Graph(spread, [index * gap + gap - 1 for index in near.outputs])
    calls = list(members(near.calls))

    for _ in range(20):
        chosen = generator.sample(calls, k=generator.randint(1, len(calls)))
        there = opset(index * gap + gap - 1 for index in chosen)
        assert far.is_convex(there) == near.is_convex(opset(chosen))


def test_two_nodes_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="same name"):
        Graph([Node("x", Form.INPUT, F32), Node("x", Form.INPUT, F32)], [1])


def test_a_node_before_its_input_is_refused() -> None:
    with pytest.raises(ValueError, match="`a` comes before one of its inputs"):
        Graph([Node("a", Form.CALL, F32, (1,), "nn.relu"), Node("x", Form.INPUT, F32)], [0])


def test_an_extract_takes_outside_values_as_parameters_in_order() -> None:
    found = extract(DIAMOND, DIAMOND.set_of("b", "d"))

    assert [n.name for n in found.graph.nodes] == ["a", "b", "c", "d"]
    assert [DIAMOND.nodes[i].name for i in found.arguments] == ["a", "c"]
    assert [DIAMOND.nodes[i].name for i in found.results] == ["d"]
    assert found.graph.names(found.graph.parameters) == {"a", "c"}


def concatenation() -> Graph:
    nodes = [
        Node("x", Form.INPUT, F32),
        Node("w", Form.CONSTANT, F32, value=np.ones(4, np.float32)),
        Node("a", Form.CALL, F32, (0,), "nn.relu"),
        Node("t", Form.TUPLE, TupleType((F32, F32)), (2, 1)),
        Node("c", Form.CALL, TensorType("float32", (8,)), (3,), "concat"),
    ]
    return Graph(nodes, [4])


def test_a_tuple_outside_comes_along_and_its_fields_become_parameters() -> None:
    graph = concatenation()
    found = extract(graph, graph.set_of("c"))

    assert [(n.name, n.form) for n in found.graph.nodes] == [
        ("w", Form.INPUT),
        ("a", Form.INPUT),
        ("t", Form.TUPLE),
        ("c", Form.CALL),
    ]


def test_constants_are_bound_only_where_that_is_asked_for() -> None:
    graph = concatenation()
    found = extract(graph, graph.set_of("a", "t", "c"), graph.set_of("w"))

    assert found.graph.nodes[found.graph.index("w")].form is Form.CONSTANT
    assert [graph.nodes[i].name for i in found.arguments] == ["x"]


def test_of_a_call_that_gives_a_tuple_the_used_projections_are_the_results() -> None:
    pair = TupleType((F32, F32))
    nodes = [
        Node("x", Form.INPUT, F32),
        Node("s", Form.CALL, pair, (0,), "split"),
        Node("p", Form.PROJECTION, F32, (1,), value=0),
        Node("q", Form.PROJECTION, F32, (1,), value=1),
        Node("a", Form.CALL, F32, (3,), "nn.relu"),
    ]
    graph = Graph(nodes, [2, 4])
    found = extract(graph, graph.set_of("s"))

    assert [graph.nodes[i].name for i in found.results] == ["p", "q"]
    assert found.graph.names(found.graph.results) == {"p", "q"}


def test_a_fingerprint_depends_on_structure_but_not_on_names_or_weights() -> None:
    graph = concatenation()
    same = [replace(node, name=node.name + "_") for node in graph.nodes]
    other_op = [replace(n, op="nn.silu") if n.op == "nn.relu" else n for n in graph.nodes]
    wide = TensorType("float32", (64,))
    weights = [
        Graph([Node("w", Form.CONSTANT, wide, value=np.full(64, v, np.float32))], [0])
        for v in (1.0, 2.0)
    ]

    assert fingerprint(graph) == fingerprint(Graph(same, graph.outputs))
    assert fingerprint(graph) != fingerprint(Graph(other_op, graph.outputs))
    assert fingerprint(weights[0]) == fingerprint(weights[1])


def test_a_small_constant_steers_the_kernel_and_stays_in_its_fingerprint() -> None:
    graph = concatenation()
    value = 2 * np.ones(4, np.float32)
    changed = [replace(n, value=value) if n.name == "w" else n for n in graph.nodes]

    assert fingerprint(graph) != fingerprint(Graph(changed, graph.outputs))
    assert without_weights(graph).nodes[1].value is not None


def dequantized(weight: int, scale: float, zero: int) -> Graph:
    w = Node("w", Form.CONSTANT, TensorType("uint8", (32,)), value=np.full(32, weight, np.uint8))
    s = Node("s", Form.CONSTANT, TensorType("float32", ()), value=np.float32(scale))
    z = Node("z", Form.CONSTANT, TensorType("uint8", ()), value=np.uint8(zero))
    attrs = {"axis": 0, "out_dtype": "float32"}
    y = Node(
        "y", Form.CALL, TensorType("float32", (32,)), op="dequantize", inputs=(0, 1, 2), attrs=attrs
    )
    return Graph([w, s, z, y], [3])


def test_kernels_of_other_quantized_weights_scales_and_zero_points_are_the_same() -> None:
    one = fingerprint(dequantized(1, 0.5, 3))

    assert fingerprint(dequantized(2, 0.25, 4)) == one
    assert len({one, *(fingerprint(dequantized(1, 0.5, zero)) for zero in (0, 128))}) == 3


def test_scales_are_sent_along() -> None:
    graph = dequantized(1, 0.5, 3)
    wide = replace(graph.nodes[1], type=TensorType("float32", (32,)), value=np.ones(32, np.float32))
    graph = Graph([graph.nodes[0], wide, *graph.nodes[2:]], graph.outputs)

    assert without_weights(graph).nodes[1].value is not None


@pytest.mark.parametrize(("dtype", "is_same"), [("int8", True), ("int64", False)])
def test_many_bytes_are_weights_and_many_indices_are_not(dtype: str, is_same: bool) -> None:
    one, other = (
        Graph(
            [Node("w", Form.CONSTANT, TensorType(dtype, (99,)), value=np.full(99, v, dtype))], [0]
        )
        for v in (1, 2)
    )

    assert (fingerprint(one) == fingerprint(other)) == is_same


def test_large_weights_are_not_sent_along() -> None:
    big = TensorType("float32", (1000,))
    node = Node("w", Form.CONSTANT, big, value=np.ones(1000, np.float32))
    graph = Graph([node], [0])

    assert without_weights(graph).nodes[0].value is None
    assert fingerprint(without_weights(graph)) == fingerprint(graph)


def test_of_a_tuple_that_is_used_outside_the_fields_are_the_results() -> None:
    graph = concatenation()
    found = extract(graph, graph.set_of("a", "t"))

    assert [graph.nodes[i].name for i in found.results] == ["a"]


def test_the_tensors_of_a_type_are_those_in_all_its_tuples() -> None:
    small = TensorType("int8", (2,))

    assert list(tensors(F32)) == [F32]
    assert list(tensors(TupleType((F32, OpaqueType(), TupleType((small, F32)))))) == [
        F32,
        small,
        F32,
    ]
    assert list(tensors(OpaqueType("shape"))) == []


def test_members_are_all_there_and_ascend_however_far_apart() -> None:
    indexes = [0, 1, 63, 64, 65, 127, 128, 300, 9_999, 10_062, 10_063, 50_000]
    assert list(members(opset(indexes))) == indexes
    assert list(members(opset(range(500)))) == list(range(500))
    assert not list(members(0))


def test_equal_shapes_along_a_chain_do_not_collide() -> None:
    moved = [SubGraph(7 << place) for place in range(3_000)]
    assert len({hash(each) for each in moved}) == len(moved)
    assert len({hash(compact(each.inside)) for each in moved}) == len(moved)


@pytest.mark.parametrize("span", [1, 40, 300, 5_000])
@pytest.mark.parametrize("start", [0, 1, 63, 1_990, 70_000])
def test_a_compact_set_has_the_same_members(start: int, span: int) -> None:
    generator = random.Random(start + span)
    for size in (1, 2, 5, span):
        indexes = sorted({start + generator.randrange(span) for _ in range(size)})
        nodes = opset(indexes)

        assert first(nodes) == indexes[0]
        assert list(members(nodes)) == indexes
        assert expanded(compact(nodes)) == nodes
        assert sys.getsizeof(compact(nodes)[1]) < 40 + span // 7


@pytest.mark.parametrize("start", [0, 63, 70_000])
def test_compact_sets_are_joined_as_sets_are(start: int) -> None:
    generator = random.Random(start)
    for size in (0, 1, 2, 40):
        one, other = (
            {start + generator.randrange(200) for _ in range(count)} for count in (size, 5)
        )
        nodes, both = opset(one), joined(compact_of(one), compact_of(other))

        assert compact_of(one) == compact(nodes) == compact(nodes, min(one, default=0))
        assert compact(nodes, start) == compact(nodes)
        assert list(members_of(both)) == sorted(one | other)
        assert both == joined(compact_of(other), compact_of(one)) == compact(opset(one | other))


def test_a_union_and_a_label_give_what_a_sub_graph_of_these_nodes_is() -> None:
    one, other = SubGraph(0b1010 << 90, 1 << 3).labelled("a"), SubGraph(0b101 << 90).labelled("b")
    nodes = 0b1111 << 90

    union = one | other

    assert union == SubGraph(nodes, 1 << 3, (other.composites[0], one.composites[0]))
    assert (union.inside, list(union.indexes)) == (nodes, [90, 91, 92, 93])
    whole = union.labelled("c").composites[0]
    assert whole == Composite("c", nodes, 1 << 3, union.composites)


@pytest.mark.parametrize("seed", range(20))
def test_the_facts_of_a_sub_graph_are_the_same_far_down_a_graph(seed: int) -> None:
    generator = random.Random(seed)
    near = random_graph(generator, 8)
    before = [Node(f"p{number}", Form.INPUT, F32) for number in range(4_000)]
    gap = len(before)
    moved = (replace(n, inputs=tuple(i + gap for i in n.inputs)) for n in near.nodes)
    far = Graph([*before, *moved], [index + gap for index in near.outputs])
    calls = list(members(near.calls))
    one, other = (opset(generator.sample(calls, k=3)) for _ in range(2))

    for inside in (one, other, one | other):
        there = inside << gap
        for fact in ("entry", "exit", "input", "output", "downstream"):
            assert getattr(far, fact)(there) == getattr(near, fact)(inside) << gap, fact
        for fact in ("depth", "kind", "is_convex", "operators"):
            assert getattr(far, fact)(there) == getattr(near, fact)(inside), fact
        taps = near.taps(members(near.exit(inside)), inside)
        assert far.taps(members(far.exit(there)), there) == [tap + gap for tap in taps]
    assert SubGraph(one).overlaps(SubGraph(other)) == bool(one & other)
    assert SubGraph(one << gap).overlaps(SubGraph(other << gap)) == bool(one & other)
