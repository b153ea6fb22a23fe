"""Tuples and projections that lie between the nodes of a sub-graph."""

from collage_dsl.graph.graph import Graph
from collage_dsl.graph.opset import OpSet, members, opset
from collage_dsl.graph.types import Form


def absorbable(graph: Graph, inside: OpSet) -> OpSet:
    """The free nodes between that nothing outside uses; a tuple is no result of a kernel."""
    between = _between(graph, inside)
    return opset(
        index
        for index in members(between)
        if graph.nodes[index].form is Form.PROJECTION
        or not graph.users_of[index] & ~(inside | between)
    )


def _between(graph: Graph, inside: OpSet) -> OpSet:
    """Free nodes outside on the paths that lead from `inside` back to it."""
    below, pending = 0, graph.output(inside) & graph.free
    while pending:
        below |= pending
        pending = graph.output(pending) & graph.free & ~(inside | below)
    found, pending = 0, graph.input(inside) & below
    while pending:
        found |= pending
        pending = graph.input(pending) & below & ~found
    return found


def beside(graph: Graph, inside: OpSet) -> OpSet:
    """The nodes outside that `inside` touches, directly or through tuples and projections."""
    found, pending = 0, graph.output(inside)
    while pending:
        found |= pending
        pending = graph.output(pending & graph.free) & ~(inside | found)
    above, pending = 0, graph.input(inside)
    while pending:
        above |= pending
        pending = graph.input(pending & graph.free) & ~(inside | above)
    return found | above
