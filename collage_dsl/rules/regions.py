"""The largest regions that touching sub-graphs make."""

from collections.abc import Iterable, Iterator

from collage_dsl.graph import Graph, OpSet, SubGraph


def regions(graph: Graph, found: Iterable[SubGraph]) -> Iterator[SubGraph]:
    """
    `found`, as far as they are disjoint, merged with those they touch as long as the union is
    convex and stays in one dataflow block; in graph order.

    Of those that overlap the one with more operators counts, then the earlier one. A region
    may have several exits: `limits` say how many are allowed.
    """
    parts = list(_disjoint(graph, found))
    merged: list[SubGraph] = []
    while parts:
        region = parts.pop(0)
        while (partner := _partner(graph, region, parts)) is not None:
            region |= parts.pop(partner)
        earlier = _partner(graph, region, merged)
        if earlier is None:
            merged.append(region)
        else:  # what lay between the two is in one of them now
            parts.insert(0, region | merged.pop(earlier))
    yield from sorted(merged, key=lambda region: region.order)


def _disjoint(graph: Graph, found: Iterable[SubGraph]) -> list[SubGraph]:
    """The greedy choice, in graph order."""
    ordered = sorted(dict.fromkeys(found), key=lambda each: each.order)
    ordered.sort(key=lambda each: -(each.inside & graph.calls).bit_count())
    taken: OpSet = 0
    chosen = []
    for each in ordered:
        if not each.inside & taken:
            chosen.append(each)
            taken |= each.inside
    return sorted(chosen, key=lambda each: each.order)


def _partner(graph: Graph, region: SubGraph, others: list[SubGraph]) -> int | None:
    """The place of the first of `others` that can be merged into `region`."""
    beside = graph.input(region.inside) | graph.output(region.inside)
    for place, other in enumerate(others):
        if other.inside & beside and _is_whole(graph, region.inside | other.inside):
            return place
    return None


def _is_whole(graph: Graph, inside: OpSet) -> bool:
    return len(graph.blocks(inside)) == 1 and graph.is_convex(inside)
