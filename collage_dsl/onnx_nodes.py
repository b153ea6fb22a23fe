"""The graphs inside ONNX nodes, such as the branches of an `If`, and the nodes of these graphs."""

from collections.abc import Iterable, Iterator

import onnx


def graphs_of(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs in the attributes of a node, without those inside them."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def nodes_within(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes, each before those of the graphs inside it."""
    pending = [*nodes][::-1]
    while pending:
        node = pending.pop()
        yield node
        pending += [inner for graph in graphs_of(node) for inner in graph.node][::-1]
