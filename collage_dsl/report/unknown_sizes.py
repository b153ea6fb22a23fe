"""Say how a condition that depends on a symbol gets an answer: the inputs need sizes."""

from collections.abc import Iterable

from collage_dsl.graph import Dim, Form, Graph, Node, TensorType
from collage_dsl.graph.sizes import UNKNOWN
from collage_dsl.rules.facts import Fact


def how_to_know(graph: Graph, facts: Iterable[Fact]) -> str:
    """How to make `facts` known, if symbols are why they are not; else an empty string."""
    asked = {fact.node for fact in facts if fact.unknown}
    if not any(_symbols(node) for node in graph.nodes if node.name in asked):
        return ""
    inputs = (node for node in graph.nodes if node.form is Form.INPUT and not node.inputs)
    node = next(filter(_symbols, inputs), None)
    if node is None:
        return ""
    sizes = ",".join(str(dim) if isinstance(dim, int) else "1" for dim in _shape(node))
    return (
        f"the input `{node.name}` has symbols in its shape: write numbers in their place; "
        f"an ONNX model takes them with the argument `shapes` (`{node.name}={sizes}`)"
    )


def _symbols(node: Node) -> list[str]:
    return [dim for dim in _shape(node) if isinstance(dim, str) and dim != UNKNOWN]


def _shape(node: Node) -> tuple[Dim, ...]:
    return (node.type.shape or ()) if isinstance(node.type, TensorType) else ()
