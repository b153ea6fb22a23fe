"""Tell where a value comes from, for parameters that exclude some sources: `x: not nn.relu`."""

from collage_dsl.graph import Form, Graph, Node
from collage_dsl.rules.pattern import Excluded


def refusal(excluded: Excluded, graph: Graph, index: int) -> str:
    """Why the value of node `index` comes from what is excluded; empty if it does not."""
    node = graph.nodes[index]
    source = _source(graph, node)
    if source.form is Form.CONSTANT:
        return f"`{node.name}` is a constant" if excluded.constants else ""
    if source.form is not Form.CALL:
        return ""
    is_field = "a field of " if source is not node else ""
    if source.op in excluded.ops:
        return f"`{node.name}` is {is_field}a result of {source.op}"
    if source.kind in excluded.kinds:
        return f"`{node.name}` is {is_field}a result of {source.op}, which is {source.kind}"
    return ""


def _source(graph: Graph, node: Node) -> Node:
    """The node that computes the value of `node`, which may be a field of a tuple."""
    while node.form is Form.PROJECTION:
        of = graph.nodes[node.inputs[0]]
        if of.form is Form.TUPLE and node.value in range(len(of.inputs)):
            assert isinstance(node.value, int)
            of = graph.nodes[of.inputs[node.value]]
        node = of
    return node
