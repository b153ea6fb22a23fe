"""`max_splits`: largest regions, and what a few cuts leave of them."""

import random
from collections.abc import Iterator

import pytest

from collage_dsl.graph import Graph, Kind, SubGraph, members
from collage_dsl.language import parse_graph
from collage_dsl.rules import (
    CombineByPrimitives,
    Constants,
    JoinAnything,
    KindPair,
    OpCallByKind,
    Primitive,
    Tagged,
    Trace,
    TupleArgs,
    TupleProjections,
)
from tests.graphs import graph_of, random_graph
from tests.test_combine import tuples

CHAIN = graph_of({"a": ["x"], "b": ["a"], "c": ["b"], "d": ["c"]}, ["d"])
DIAMOND = graph_of({"a": ["x"], "b": ["a"], "c": ["a"], "d": ["b", "c"]}, ["d"])
FUSIBLE = OpCallByKind()


def proposed(graph: Graph, *using: Primitive, splits: int | None, **bounds: int) -> list[SubGraph]:
    rule = CombineByPrimitives(FUSIBLE, using or (JoinAnything(),), max_splits=splits, **bounds)
    return list(rule.propose(graph, Trace()))


def names(graph: Graph, *using: Primitive, splits: int, **bounds: int) -> set[str]:
    found = proposed(graph, *using, splits=splits, **bounds)
    return {"".join(sorted(graph.names(each.inside))) for each in found}


def test_cuts_of_a_chain_leave_its_ends_and_then_everything_in_between() -> None:
    calls = {"a", "b", "c", "d"}

    assert names(CHAIN, splits=0) == calls | {"abcd"}
    assert names(CHAIN, splits=1) == calls | {"abcd", "ab", "abc", "bcd", "cd"}
    assert names(CHAIN, splits=2) == calls | {"abcd", "ab", "abc", "bcd", "cd", "bc"}


def test_cuts_of_a_diamond_part_it_above_and_below() -> None:
    calls = {"a", "b", "c", "d"}

    assert names(DIAMOND, splits=0) == calls | {"abcd"}
    assert names(DIAMOND, splits=1) == calls | {"abcd", "ab", "ac", "bd", "cd", "abc", "bcd"}


def test_a_region_ends_where_primitives_and_bounds_do() -> None:
    graph = graph_of({"a": ["x"], "m": ["a"], "b": ["m"]}, ["b"], m=Kind.ANCHOR)

    assert names(graph, KindPair(Kind.ANCHOR, Kind.BROADCAST), splits=0) == {"a", "m", "b", "bm"}
    assert names(CHAIN, splits=0, max_depth=2) == {"a", "b", "c", "d", "ab", "cd"}
    assert names(CHAIN, splits=0, max_nodes=3) == {"a", "b", "c", "d", "abc"}


def test_tuples_and_projections_stay_with_their_calls() -> None:
    graph = tuples()
    using = (JoinAnything(), TupleArgs(), TupleProjections())

    assert names(graph, *using, splits=0) == {"a", "b", "c", "s", "abcpqst"}
    assert {"ct", "abct", "cpqst", "pqs"} <= names(graph, *using, splits=2)


def test_each_piece_has_all_its_constants_inside_or_none() -> None:
    graph = tuples()
    using = (JoinAnything(), TupleArgs(), TupleProjections())
    bare = proposed(graph, *using, splits=2)
    found = proposed(graph, *using, Constants(), splits=2)

    assert [each for each in found if not each.constants] == bare
    with_w = [each.inside for each in found if graph.names(each.constants) == {"w"}]
    assert with_w == [each.inside for each in bare if each.inside & graph.set_of("b")]


def test_cuts_do_not_go_through_a_candidate() -> None:
    pairs = CombineByPrimitives(FUSIBLE, (JoinAnything(),), max_nodes=2)
    rule = CombineByPrimitives(Tagged("pair", pairs), (JoinAnything(),), max_splits=2)
    found = list(rule.propose(CHAIN, Trace()))
    whole = [each for each in found if each.inside == CHAIN.calls]

    assert [len(each.composites) for each in whole] == [2]
    assert all(len(each.composites) == 1 for each in found if each not in whole)


# The slow definition, on sets of names.


def slow_pieces(graph: Graph, region: frozenset[int], cuts: int) -> Iterator[frozenset[int]]:
    yield region
    if cuts == 0:
        return
    for node in region:
        for edges in (graph.inputs_of, graph.users_of):
            side = frozenset(n for n in region if leads(edges, node, n, region))
            for half in (side, region - side):
                for part in connected(graph, half):
                    yield from slow_pieces(graph, part, cuts - 1)


def leads(edges: tuple[int, ...], start: int, end: int, region: frozenset[int]) -> bool:
    if start == end:
        return True
    return any(leads(edges, n, end, region) for n in members(edges[start]) if n in region)


def connected(graph: Graph, nodes: frozenset[int]) -> Iterator[frozenset[int]]:
    left = set(nodes)
    while left:
        part = {left.pop()}
        while True:
            beside = {n for n in left if any(touch(graph, n, m) for m in part)}
            if not beside:
                break
            part |= beside
            left -= beside
        yield frozenset(part)


def touch(graph: Graph, one: int, other: int) -> bool:
    return other in graph.nodes[one].inputs or one in graph.nodes[other].inputs


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("cuts", [0, 1, 2])
def test_pieces_are_those_of_the_slow_definition_and_the_closure_has_them_all(
    seed: int, cuts: int
) -> None:
    graph = random_graph(random.Random(seed), 7)
    regions = list(connected(graph, frozenset(members(graph.calls))))
    wanted = {1 << n for n in members(graph.calls)}
    for region in regions:
        wanted |= {sum(1 << n for n in piece) for piece in slow_pieces(graph, region, cuts)}
    found = [each.inside for each in proposed(graph, splits=cuts)]

    assert len(found) == len(set(found))
    assert set(found) == wanted
    assert all(graph.is_convex(each) for each in found)
    assert set(found) <= {each.inside for each in proposed(graph, splits=None)}


@pytest.mark.parametrize("length", [3, 10, 30])
def test_of_a_long_chain_there_are_as_many_pieces_as_is_said(length: int) -> None:
    edges = {f"n{at}": [f"n{at - 1}" if at else "x"] for at in range(length)}
    graph = graph_of(edges, [f"n{length - 1}"])

    # The candidates themselves, of which two are ends that a cut leaves, and the whole chain.
    assert len(proposed(graph, splits=1)) == length + 1 + 2 * (length - 2)
    assert len(proposed(graph, splits=2)) == length * (length + 1) // 2


def test_a_tuple_stays_with_the_call_of_a_region_that_takes_it() -> None:
    graph = parse_graph(
        "x: f32[1, 4]; a = exp(x); t = (x, x); c = concat(t) [axis = 0]; y = add(a, c); return y;"
    )
    using = (JoinAnything(), TupleArgs())

    assert names(graph, *using, splits=1) == {"a", "c", "y", "acty", "ct", "cty", "ay"}
