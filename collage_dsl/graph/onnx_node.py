"""ONNX nodes that no operator of Relax computes. In a graph, they are calls of their own."""

from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass

from collage_dsl.graph.graph import Graph, Node
from collage_dsl.graph.operators import relax_operators
from collage_dsl.graph.opset import OpSet, opset

ONNX_CALL = "collage.onnx"
"""The function that a Relax module calls for such a node."""


@dataclass(frozen=True, slots=True)
class OnnxNode:
    """
    The value of a call that is an ONNX node: a model of this node alone, as the bytes of an
    `onnx.ModelProto`. Its outputs are the results of the call, its inputs the operands; but those
    at the places `inside` are constants in the model, for they are no tensors of Relax.
    """

    model: bytes
    inside: tuple[int, ...] = ()

    @classmethod
    def from_text(cls, text: str) -> "OnnxNode":
        return cls(b64decode(text))

    def __str__(self) -> str:
        return b64encode(self.model).decode()


def passed(node: Node) -> tuple[int, ...]:
    """The operands of a call, without the constants that an ONNX node has in its model."""
    if not isinstance(node.value, OnnxNode) or not node.value.inside:
        return node.inputs
    inside = node.value.inside
    return tuple(index for place, index in enumerate(node.inputs) if place not in inside)


def constants_inside(graph: Graph, nodes: Iterable[int]) -> OpSet:
    """The constants that ONNX nodes among `nodes` have in their models. Nothing else takes them."""
    found = (graph.nodes[index] for index in nodes)
    return opset(
        node.inputs[place]
        for node in found
        if isinstance(node.value, OnnxNode)
        for place in node.value.inside
    )


def onnx_operator(domain: str, op: str) -> str:
    """The operator of the call: `onnx.LSTM`, `com.microsoft.FusedGelu`."""
    standard = domain in ("", "ai.onnx")
    name = f"{domain}.{op}"
    return f"onnx.{op}" if standard else f"onnx.{name}" if name in relax_operators() else name
