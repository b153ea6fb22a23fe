"""Find tuples and projections on the paths between the nodes of a sub-graph."""

from collage_dsl.graph.graph import Graph
from collage_dsl.graph.opset import OpSet, members, opset
from collage_dsl.graph.types import Form


def absorbable(graph: Graph, inside: OpSet) -> OpSet:
    """
    The free nodes between nodes of `inside` that it can take in: projections, and tuples that
    nothing outside uses, because a kernel cannot return a tuple.
    """
    between = _between(graph, inside)
    return opset(
        index
        for index in members(between)
        if graph.nodes[index].form is Form.PROJECTION
        or not graph.users_of[index] & ~(inside | between)
    )


def _between(graph: Graph, inside: OpSet) -> OpSet:
    """The free nodes outside on paths that leave `inside` and return to it."""
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
    """The neighbours of `inside`: nodes outside, direct or behind tuples and projections."""
    found, pending = 0, graph.output(inside)
    while pending:
        found |= pending
        pending = graph.output(pending & graph.free) & ~(inside | found)
    above, pending = 0, graph.input(inside)
    while pending:
        above |= pending
        pending = graph.input(pending & graph.free) & ~(inside | above)
    return found | above
