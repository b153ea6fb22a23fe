"""Limits on candidates, such as `max_exits` and `max_depth`, and the check of a sub-graph."""

from dataclasses import dataclass

from collage_dsl.graph import Graph, SubGraph


@dataclass(frozen=True, slots=True)
class Limits:
    """
    Bounds on a sub-graph; None is no bound. Every valid sub-graph is convex and stays
    inside one dataflow block, on one device.

    `max_depth` counts operator calls on the longest path, `max_nodes` all operator calls.
    Without `taps` no exit may also feed an inside node.

    The others leave out valid candidates. `min_nodes` leaves out those with fewer operator
    calls. `largest_first` leaves out those that overlap a kept one with more operator calls, or
    with as many if it comes earlier. `max_regions` keeps only this number of the largest
    candidates that do not overlap, also without `largest_first`.

    A rule adds at most `max_candidates` to those of the rules in it. None is `Trace.most`.
    """

    max_exits: int | None = 1
    max_depth: int | None = None
    max_nodes: int | None = None
    taps: bool = False
    min_nodes: int | None = None
    largest_first: bool = False
    max_regions: int | None = None
    max_candidates: int | None = None

    @property
    def prunes(self) -> bool:
        """Whether these limits leave out valid candidates."""
        bounds = self.min_nodes, self.max_regions
        return self.largest_first or any(bound is not None for bound in bounds)

    def refusal(self, graph: Graph, sub_graph: SubGraph) -> str:
        """Why `sub_graph` is not valid; empty if it is valid."""
        inside = sub_graph.inside
        if self.max_nodes is not None:
            calls = (inside & graph.calls).bit_count()
            if calls > self.max_nodes:
                return f"{calls} operators, max_nodes is {self.max_nodes}"
        indexes = sub_graph.indexes
        exits = graph.exits(indexes, inside)
        if self.max_exits is not None and len(exits) > self.max_exits:
            return f"{len(exits)} exits, max_exits is {self.max_exits}"
        if not self.taps and (taps := graph.taps(exits, inside)):
            return f"`{min(graph.nodes[i].name for i in taps)}` is used both inside and outside"
        if self.max_depth is not None and graph.is_deeper(inside, self.max_depth):
            return f"depth {graph.depth(inside)}, max_depth is {self.max_depth}"
        if inside and not graph.in_one_block(inside):
            return "spans several dataflow blocks"
        if not graph.on_one_device(inside):
            return "spans several devices"
        if len(indexes) > 1 and not graph.is_convex(inside, indexes):
            return "a path leaves it and comes back"
        return ""
