"""Anchors with what comes before and after."""

import random

import pytest

from collage_dsl.graph import Graph, Kind, SubGraph
from collage_dsl.language import parse_graph
from collage_dsl.rules import OpCallByKind, Trace, Vertical
from collage_dsl.rules.bound import Bound
from collage_dsl.rules.vertical import MOST, with_neighbours
from tests.graphs import random_graph

ANCHORS = OpCallByKind((Kind.ANCHOR,))


def proposed(text: str, **said: Kind | int | None) -> list[str]:
    graph = parse_graph(text)
    rule = Vertical(ANCHORS, **said)  # type: ignore[arg-type]
    return names(graph, rule)


def names(graph: Graph, rule: Vertical) -> list[str]:
    found = rule.propose(graph, Trace())
    return ["".join(sorted(graph.names(each.inside))) for each in found]


CHAIN = """x: f32[4, 4]; w: f32[4, 4];
  a = exp(x); b = tanh(a); m = matmul(b, w); p = nn.relu(m); q = exp(p); return q;"""


def test_every_step_of_one_side_goes_with_every_step_of_the_other() -> None:
    found = proposed(CHAIN)

    assert found[0] == "m"
    assert set(found) == {"m", "bm", "abm", "mp", "bmp", "abmp", "mpq", "bmpq", "abmpq"}
    assert len(found) == len(set(found))


def test_a_side_may_stay_empty_and_depth_bounds_both() -> None:
    assert set(proposed(CHAIN, prologue=None)) == {"m", "mp", "mpq"}
    assert set(proposed(CHAIN, epilogue=None)) == {"m", "bm", "abm"}
    assert set(proposed(CHAIN, max_depth=2)) == {"m", "bm", "mp"}


def test_a_diamond_behind_an_anchor_is_taken_whole() -> None:
    text = """x: f32[4, 4]; m = matmul(x, x); s = sigmoid(m); y = multiply(m, s); z = exp(y);
      return z;"""

    assert proposed(text) == ["m", "msy", "msyz"]


def test_what_others_use_too_is_neither_prologue_nor_left_behind() -> None:
    text = """x: f32[4, 4]; a = exp(x); m = matmul(a, x); p = nn.relu(m); q = tanh(a);
      r = exp(m); return p, q, r;"""

    assert proposed(text) == ["m"]


def test_no_path_leaves_the_kernel_and_comes_back() -> None:
    text = "x: f32[4, 4]; m = matmul(x, x); s = nn.softmax(m); y = add(m, s); return y;"

    assert "my" not in proposed(text)


def test_only_kinds_up_to_those_named_are_added() -> None:
    text = """x: f32[4, 4]; m = matmul(x, x); t = permute_dims(m); y = exp(t); return y;"""

    assert proposed(text) == ["m"]
    assert proposed(text, epilogue=Kind.INJECTIVE) == ["m", "mt", "mty"]


def test_a_residual_joins_and_a_value_that_both_use_is_a_prologue() -> None:
    text = "x: f32[4, 4]; a = exp(x); m = matmul(a, x); y = add(m, a); return y;"

    assert set(proposed(text)) == {"m", "my", "amy"}


def test_either_side_is_bounded() -> None:
    calls = "".join(f"n{at} = exp({f'n{at - 1}' if at else 'm'}); " for at in range(30))
    text = f"x: f32[4, 4]; m = matmul(x, x); {calls} return n29;"

    assert len(proposed(text, max_depth=100)) == 1 + MOST


@pytest.mark.parametrize("seed", range(40))
def test_everything_is_convex_and_has_no_more_exits_than_its_anchor(seed: int) -> None:
    graph = random_graph(random.Random(seed), 12)
    for each in Vertical(ANCHORS).propose(graph, Trace()):
        assert graph.is_convex(each.inside)
        assert graph.exit(each.inside).bit_count() <= 1
        anchors = [graph.nodes[i].kind for i in range(len(graph)) if each.inside >> i & 1]
        assert all(kind in (Kind.ELEMENTWISE, Kind.BROADCAST, Kind.ANCHOR) for kind in anchors)
        assert anchors.count(Kind.ANCHOR) == 1


def test_nothing_is_added_to_an_anchor_that_a_path_leaves_and_comes_back_to() -> None:
    graph = parse_graph(CHAIN)
    anchor = SubGraph(graph.set_of("b", "p"))

    found = with_neighbours(
        graph,
        [anchor],
        prologue=Kind.BROADCAST,
        epilogue=Kind.BROADCAST,
        max_depth=6,
        bound=Bound(1000),
    )

    assert list(found) == [anchor]
