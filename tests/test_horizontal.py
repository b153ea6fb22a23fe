"""Unions of siblings."""

from collage_dsl.graph import Graph, Kind
from collage_dsl.language import parse_graph
from collage_dsl.rules import Horizontal, OpCallByKind, Tagged, Trace, Union
from collage_dsl.rules.horizontal import REACH

HEADS = """
  x: f32[4, 8]; z: f32[4, 8]; v: f32[8, 8]; w: f32[8, 8];
  q = matmul(x, v); k = matmul(x, w); u = matmul(z, w);
  e = exp(x); y = exp(q); r = exp(k);
  return u, e, y, r;
"""


def proposed(graph: Graph, rule: Horizontal) -> list[str]:
    found = rule.propose(graph, Trace())
    return ["".join(sorted(graph.names(each.inside))) for each in found]


def test_siblings_have_one_shape_and_share_an_input() -> None:
    graph = parse_graph(HEADS)
    found = proposed(graph, Horizontal(OpCallByKind()))

    assert found[:6] == ["q", "k", "u", "e", "y", "r"]
    assert set(found[6:]) == {"kq", "ku"}


def test_no_sibling_is_downstream_of_another() -> None:
    graph = parse_graph("x: f32[4]; a = add(x, x); b = add(x, a); c = add(x, b); return c;")

    assert proposed(graph, Horizontal(OpCallByKind())) == ["a", "b", "c"]


def test_constants_and_literals_are_no_shared_input() -> None:
    text = "x: f32[4]; z: f32[4]; w = const f32[4]; a = add(x, w); b = add(z, w); return a, b;"

    assert proposed(parse_graph(text), Horizontal(OpCallByKind())) == ["a", "b"]


def test_at_most_so_many_are_joined() -> None:
    calls = "".join(f"n{at} = exp(x); " for at in range(4))
    graph = parse_graph(f"x: f32[4]; {calls} return n0, n1, n2, n3;")

    assert len(proposed(graph, Horizontal(OpCallByKind(), 2))) == 4 + 6
    assert len(proposed(graph, Horizontal(OpCallByKind()))) == 4 + 6 + 4
    assert len(proposed(graph, Horizontal(OpCallByKind(), 4))) == 4 + 6 + 4 + 1


def test_a_candidate_is_joined_with_the_next_few_only() -> None:
    count = 12
    calls = "".join(f"n{at} = exp(x); " for at in range(count))
    graph = parse_graph(f"x: f32[4]; {calls} return {', '.join(f'n{at}' for at in range(count))};")
    pairs = proposed(graph, Horizontal(OpCallByKind(), 2))[count:]

    assert len(pairs) == sum(min(REACH, count - 1 - at) for at in range(count))
    assert "n0n7" in pairs
    assert "n0n8" not in pairs


def test_candidates_of_different_labels_are_no_siblings() -> None:
    graph = parse_graph("x: f32[4]; a = exp(x); b = exp(x); return a, b;")
    tagged = Tagged("lib.exp", OpCallByKind())
    found = list(Horizontal(Union((OpCallByKind(), tagged))).propose(graph, Trace()))

    assert [len(each.composites) for each in found] == [0, 0, 1, 1, 0, 2]


def test_unions_are_convex_and_have_the_exits_of_all() -> None:
    graph = parse_graph(HEADS)
    for each in Horizontal(OpCallByKind((Kind.ANCHOR,))).propose(graph, Trace()):
        assert graph.is_convex(each.inside)
        assert graph.exit(each.inside).bit_count() == each.inside.bit_count()


def test_of_three_siblings_two_that_depend_on_each_other_are_not_joined() -> None:
    graph = parse_graph(
        "x: f32[4]; y: f32[4]; a = add(x, y); b = add(x, y); c = add(b, x); return a, c;"
    )
    found = proposed(graph, Horizontal(OpCallByKind()))

    assert found == ["a", "b", "c", "ab", "ac"]
