"""Why a sub-graph is not valid."""

import pytest

from collage_dsl.graph import Form, Graph, Node, SubGraph
from collage_dsl.rules import Limits
from collage_dsl.rules.regions import regions
from tests.graphs import F32, graph_of

DIAMOND = graph_of({"a": ["x"], "b": ["a"], "c": ["a"], "d": ["b", "c"]}, ["d"])


@pytest.mark.parametrize(
    ("names", "limits", "because"),
    [
        ("abcd", Limits(), ""),
        ("abcd", Limits(max_nodes=3), "4 operators, max_nodes is 3"),
        ("bc", Limits(), "2 exits, max_exits is 1"),
        ("bc", Limits(max_exits=2), ""),
        ("ab", Limits(max_exits=2), "`a` is used both inside and outside"),
        ("ab", Limits(max_exits=2, taps=True), ""),
        ("abcd", Limits(max_depth=2), "depth 3, max_depth is 2"),
        ("abd", Limits(max_exits=None, taps=True), "a path leaves it and comes back"),
        ("ab", Limits(2, None, None, True, min_nodes=3, largest_first=True, max_regions=1), ""),
    ],
)
def test_the_first_limit_that_is_not_kept_is_the_reason(
    names: str, limits: Limits, because: str
) -> None:
    assert limits.refusal(DIAMOND, SubGraph(DIAMOND.set_of(*names))) == because


def test_nothing_spans_two_dataflow_blocks() -> None:
    nodes = [
        Node("x", Form.INPUT, F32),
        Node("a", Form.CALL, F32, (0,), "exp"),
        Node("b", Form.CALL, F32, (1,), "exp", block=1),
    ]
    graph = Graph(nodes, [2])

    assert Limits().refusal(graph, SubGraph(graph.set_of("a", "b"))) == (
        "spans several dataflow blocks"
    )


def test_a_region_is_merged_once_what_lies_between_is_one() -> None:
    """Neither {b, e} nor {c, d} can be merged with `a` alone: a path leads through the other."""
    edges = {"a": ["x"], "b": ["a"], "c": ["a"], "d": ["b", "c"], "e": ["c", "b"]}
    graph = graph_of(edges, ["d", "e"])
    parts = [SubGraph(graph.set_of(*names)) for names in ("a", "be", "cd")]

    assert list(regions(graph, parts)) == [SubGraph(graph.set_of(*"abcde"))]
