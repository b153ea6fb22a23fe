"""`max_coalesce` as a rule: merge touching sub-graphs into the largest regions."""

from collections.abc import Iterable, Iterator
from typing import Literal

from collage_dsl.graph import Graph, OpSet, SubGraph, union_of
from collage_dsl.graph.between import absorbable, beside

Preference = Literal["largest", "first"]
"""Which of overlapping sub-graphs is chosen: the largest, or the one proposed first."""


def regions(
    graph: Graph, found: Iterable[SubGraph], prefer: Preference = "largest"
) -> Iterator[SubGraph]:
    """
    The sub-graphs of `found`, merged where they touch, as long as the union is convex, stays in one
    dataflow block and has a variant; in graph order. A union contains the tuples and projections
    between its parts, except those that belong to another region.

    If sub-graphs overlap, only one of them is used: that with more operators, then the earlier
    one in the graph; or, with `prefer="first"`, the first in `found`. A region may have several
    exits: `limits` say how many are allowed.
    """
    parts = _disjoint(graph, found, prefer)
    merged: list[SubGraph] = []
    taken = union_of(part.inside for part in parts)
    while parts:
        region = parts.pop(0)
        while (partner := _partner(graph, region, parts, taken)) is not None:
            region = _union(graph, region, parts.pop(partner), taken)
            taken |= region.inside
        earlier = _partner(graph, region, merged, taken)
        if earlier is None:
            merged.append(region)
        else:  # the nodes between the two are now inside one of them
            parts.insert(0, _union(graph, region, merged.pop(earlier), taken))
            taken |= parts[0].inside
    yield from sorted(merged, key=lambda region: region.order)


def _disjoint(graph: Graph, found: Iterable[SubGraph], prefer: Preference) -> list[SubGraph]:
    """The greedy choice, in graph order."""
    ordered = list(dict.fromkeys(found))
    if prefer == "largest":
        ordered.sort(key=lambda each: each.order)
        ordered.sort(key=lambda each: -(each.inside & graph.calls).bit_count())
    taken: OpSet = 0
    chosen = []
    for each in ordered:
        if not each.inside & taken:
            chosen.append(each)
            taken |= each.inside
    return sorted(chosen, key=lambda each: each.order)


def _partner(graph: Graph, region: SubGraph, others: list[SubGraph], taken: OpSet) -> int | None:
    """The place of the first of `others` that can be merged into `region`."""
    touched = beside(graph, region.inside)
    for place, other in enumerate(others):
        if other.inside & touched and _may_be_one(graph, _union(graph, region, other, taken)):
            return place
    return None


def _union(graph: Graph, one: SubGraph, other: SubGraph, taken: OpSet) -> SubGraph:
    """The union of the two with the tuples and projections between them that are not `taken`."""
    union = one | other
    return union | SubGraph(absorbable(graph, union.inside) & ~taken)


def _may_be_one(graph: Graph, union: SubGraph) -> bool:
    inside = union.inside
    return union.has_variant and graph.is_together(inside) and graph.is_convex(inside)
