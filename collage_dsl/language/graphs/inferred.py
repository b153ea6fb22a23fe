"""Find the call in a graph because of which the shape of a value is not known."""

from collage_dsl.graph import Form, Graph, Node, Type, members
from collage_dsl.graph.sizes import UNKNOWN
from collage_dsl.graph.types import tensors


def not_inferred(graph: Graph, index: int) -> Node | None:
    """
    The first call from whose known operands no shape is inferred, so that the shape of node
    `index` is not known. None if there is none: the shape is known, or an input has no known shape.
    """
    unknown, left = 0, [index]
    while left:
        at = left.pop()
        if unknown >> at & 1 or _is_known(graph.nodes[at].type):
            continue
        unknown |= 1 << at
        left.extend(graph.nodes[at].inputs)
    first = next(iter(members(unknown)), None)
    if first is None or graph.nodes[first].form is not Form.CALL:
        return None
    return graph.nodes[first]


def _is_known(type_: Type) -> bool:
    """Whether the shapes in `type_` are known, up to symbols."""
    return all(each.shape is not None and UNKNOWN not in each.shape for each in tensors(type_))
