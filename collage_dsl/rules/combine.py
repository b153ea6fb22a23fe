"""The closure of a set of sub-graphs under joining touching ones."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from collage_dsl.graph import Graph, Kind, OpSet, SubGraph, members
from collage_dsl.rules.primitive import Primitive


@dataclass(frozen=True, slots=True)
class _Part:
    """A sub-graph and the facts of it that joining asks for."""

    sub_graph: SubGraph
    kind: Kind
    exits: OpSet
    inputs: OpSet


def combine(
    graph: Graph,
    seeds: Iterable[SubGraph],
    using: tuple[Primitive, ...],
    *,
    max_depth: int | None,
    max_nodes: int | None,
) -> Iterator[SubGraph]:
    """
    Every union of touching `seeds` that `using` allows, the seeds themselves first.

    Each pair is tried once, when the later of its two is taken from the queue, so that an
    old upstream meets a new downstream as well as the other way round. A union has to be
    convex and within the limits; it may have several exits, since the next union may take
    them in.
    """
    seen: set[SubGraph] = set()
    queue: deque[SubGraph] = deque()
    by_exit: defaultdict[int, list[_Part]] = defaultdict(list)
    by_input: defaultdict[int, list[_Part]] = defaultdict(list)

    def found(sub_graph: SubGraph) -> None:
        if sub_graph not in seen:
            seen.add(sub_graph)
            queue.append(sub_graph)

    def try_union(one: SubGraph, other: SubGraph) -> None:
        union = one | other
        if union not in seen and is_possible(graph, union.inside, max_depth, max_nodes):
            found(union)

    for seed in seeds:
        found(seed)
    while queue:
        part = _part(graph, queue.popleft())
        yield part.sub_graph
        for index in members(part.exits):
            by_exit[index].append(part)
        for index in members(part.inputs):
            by_input[index].append(part)
        for primitive in using:
            for addition in primitive.grows(graph, part):
                try_union(part.sub_graph, addition)
        for upstream, downstream in _touching(part, by_exit, by_input):
            if any(primitive.joins(graph, upstream, downstream) for primitive in using):
                try_union(upstream.sub_graph, downstream.sub_graph)


def _part(graph: Graph, sub_graph: SubGraph) -> _Part:
    inside = sub_graph.inside
    return _Part(sub_graph, graph.kind(inside), graph.exit(inside), graph.input(inside))


def _touching(
    part: _Part,
    by_exit: dict[int, list[_Part]],
    by_input: dict[int, list[_Part]],
) -> Iterator[tuple[_Part, _Part]]:
    """The (upstream, downstream) pairs of `part` with disjoint parts met so far."""
    inside = part.sub_graph.inside
    below = {id(p): p for index in members(part.exits) for p in by_input.get(index, ())}
    above = {id(p): p for index in members(part.inputs) for p in by_exit.get(index, ())}
    for other in below.values():
        if not other.sub_graph.inside & inside:
            yield part, other
    for other in above.values():
        if not other.sub_graph.inside & inside:
            yield other, part


def is_possible(graph: Graph, inside: OpSet, max_depth: int | None, max_nodes: int | None) -> bool:
    """Whether that is convex, in one dataflow block and on one device, and within the bounds."""
    if max_nodes is not None and (inside & graph.calls).bit_count() > max_nodes:
        return False
    if max_depth is not None and graph.depth(inside) > max_depth:
        return False
    return graph.is_together(inside) and graph.is_convex(inside)
