"""Where the nodes of a candidate lie in the order in which searches cover the calls of a graph."""

from dataclasses import dataclass, replace
from functools import cached_property

from collage_dsl.graph import (
    Compact,
    Graph,
    OpSet,
    SubGraph,
    compact_of,
    last,
    members,
    opset,
    union_of,
)


@dataclass(frozen=True, slots=True)
class Place:
    """
    The nodes of a candidate, by rank. `start` is the first rank; the sets `inside` and `calls`
    count from it. `call` is the rank of the first call.

    `is_ragged`: as one kernel, it makes some nodes wait for nodes that they would not wait for
    otherwise. That is, some node flows into the candidate, but not through it into all nodes
    after it. Only then are `above`, all nodes that flow into it, and `below`, all nodes that it
    flows into, set. `indexes` are the calls as nodes of the graph.
    """

    start: int
    inside: OpSet
    calls: OpSet
    call: int
    is_ragged: bool = False
    above: OpSet = 0
    below: OpSet = 0
    indexes: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """The last rank."""
        return self.start + last(self.inside)


class Places:
    """
    The places of sets of nodes of `graph`, found once each.

    Searches cover calls depth first: one branch is complete before the next begins. So few branches
    are partly covered at the same time, and there are few sets of covered nodes. The place of a
    node in this order is its rank.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._rank = {index: rank for rank, index in enumerate(graph.depth_first)}
        self._known: dict[Compact, Place | None] = {}
        self.calls = self.ranked(graph.calls)

    def ranked(self, nodes: OpSet) -> OpSet:
        """The ranks of `nodes`."""
        return opset(self._rank[index] for index in members(nodes))

    def of(self, sub_graph: SubGraph) -> Place | None:
        """The place of the nodes inside; None if it has no call or is not convex."""
        if sub_graph.nodes not in self._known:
            self._known[sub_graph.nodes] = self._place(sub_graph)
        return self._known[sub_graph.nodes]

    def _place(self, sub_graph: SubGraph) -> Place | None:
        graph, inside = self.graph, sub_graph.inside
        nodes = sub_graph.indexes
        indexes = tuple(index for index in nodes if graph.nodes[index].is_call)
        if not indexes or not graph.is_convex(inside, nodes):
            return None
        start, ranks = compact_of(self._rank[index] for index in nodes)
        call, calls = compact_of(self._rank[index] for index in indexes)
        place = Place(start, ranks, calls << call - start, call, indexes=indexes)
        exits = graph.exits(nodes, inside)
        leads_to_one = not exits or (len(exits) == 1 and not inside & self._unused)
        return place if leads_to_one else self._ragged(place, inside, opset(exits))

    def _ragged(self, place: Place, inside: OpSet, exits: OpSet) -> Place:
        """`place`, marked as ragged if the nodes `inside` as one kernel make others wait."""
        below = self.graph.downstream(exits) & ~inside
        sources = self.graph.input(inside) & self._made
        if not any(below & ~self._through(i, inside) for i in members(sources)):
            return place
        above = sources | union_of(self.graph.upstream_of[index] for index in members(sources))
        up, down = (self.ranked(nodes & self.graph.computed) for nodes in (above, below))
        return replace(place, is_ragged=True, above=up, below=down)

    @cached_property
    def _made(self) -> OpSet:
        """The nodes with inputs: computed nodes, and inputs that other nodes lead to."""
        return opset(i for i, inputs in enumerate(self.graph.inputs_of) if inputs)

    @cached_property
    def _unused(self) -> OpSet:
        """The computed nodes that nothing uses and that are not results."""
        return self.graph.computed & ~self.graph.results & ~union_of(self.graph.inputs_of)

    def _through(self, source: int, inside: OpSet) -> OpSet:
        """The nodes that `source` flows into through its users `inside`."""
        return self.graph.downstream(self.graph.users_of[source] & inside)
