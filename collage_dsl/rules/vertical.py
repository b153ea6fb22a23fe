"""`vertical`: join an anchor with calls before it (prologue) and after it (epilogue)."""

from collections.abc import Iterable, Iterator

from collage_dsl.graph import Form, Graph, Kind, OpSet, SubGraph, members
from collage_dsl.rules.bound import Bound

USUAL_DEPTH = 6
"""The default of `max_depth`."""

MOST = 16
"""How many nodes are added on each side of an anchor at most."""


def with_neighbours(
    graph: Graph,
    anchors: Iterable[SubGraph],
    *,
    prologue: Kind | None,
    epilogue: Kind | None,
    max_depth: int,
    bound: Bound,
) -> Iterator[SubGraph]:
    """
    `anchors`, and each with an epilogue, a prologue, or both.

    The epilogue grows in graph order. Each step adds a node that takes a value of the kernel, and
    takes no value that a path through the outside leads to; each step is one epilogue. For each
    epilogue, the prologue grows against graph order. Each step adds a node above the anchor whose
    value only the kernel uses; each step is one prologue. Only projections are added, calls of at
    most the given kind, and tuples if that kind is at least injective. A kernel stays in one
    dataflow block, is at most `max_depth` calls deep, and has no more exits than its anchor. Each
    side ends after `MOST` nodes; a side that is None stays empty.
    """
    for anchor in dict.fromkeys(anchors):
        yield anchor
        if not graph.is_convex(anchor.inside) or not graph.is_together(anchor.inside):
            continue
        exits = max(1, graph.exit(anchor.inside).bit_count())
        for below in _epilogues(graph, anchor.inside, epilogue, max_depth, bound):
            if graph.exit(below).bit_count() > exits:
                continue
            for inside in _prologues(graph, anchor.inside, below, prologue, max_depth, bound):
                if inside != anchor.inside:
                    yield SubGraph(inside, anchor.constants, anchor.composites, anchor.variants)


def _epilogues(
    graph: Graph, anchor: OpSet, kind: Kind | None, max_depth: int, bound: Bound
) -> Iterator[OpSet]:
    """`anchor`, and then the kernel after each step of the epilogue."""
    yield anchor
    downstream = graph.downstream(anchor)
    inside = anchor
    for index in members(downstream & ~anchor):
        if (inside & ~anchor).bit_count() == MOST:
            return
        inputs = graph.inputs_of[index]
        touches = inputs & inside and not inputs & downstream & ~inside
        bound.spend(inside.bit_count() if touches else 1)
        if touches and _may_join(graph, inside, index, kind, max_depth):
            inside |= 1 << index
            yield inside


def _prologues(
    graph: Graph, anchor: OpSet, below: OpSet, kind: Kind | None, max_depth: int, bound: Bound
) -> Iterator[OpSet]:
    """`below`, an anchor with its epilogue, and then the kernel after each step of the prologue."""
    yield below
    inside = below
    above = graph.input(anchor) & graph.computed
    while above and (inside & ~below).bit_count() < MOST:
        index = above.bit_length() - 1
        above &= ~(1 << index)
        users = graph.users_of[index]
        is_own = users and not users & ~inside and not graph.results >> index & 1
        bound.spend(inside.bit_count() if is_own else 1)
        if is_own and _may_join(graph, inside, index, kind, max_depth):
            inside |= 1 << index
            above |= graph.inputs_of[index] & graph.computed & ~inside
            yield inside


def _may_join(graph: Graph, inside: OpSet, index: int, kind: Kind | None, max_depth: int) -> bool:
    node = graph.nodes[index]
    if kind is None or (node.form is not Form.PROJECTION and node.kind > kind):
        return False
    larger = inside | 1 << index
    return graph.is_together(larger) and graph.depth(larger) <= max_depth
