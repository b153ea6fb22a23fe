"""ONNX nodes that no operator of Relax computes. In a graph, they are calls of their own."""

from base64 import b64decode, b64encode
from dataclasses import dataclass

from collage_dsl.graph.operators import relax_operators

ONNX_CALL = "collage.onnx"
"""The function that a Relax module calls for such a node."""


@dataclass(frozen=True, slots=True)
class OnnxNode:
    """
    The value of a call that is an ONNX node: a model of this node alone, as the bytes of an
    `onnx.ModelProto`. Its inputs are the operands of the call, its outputs the results. What else
    the node takes, as constants that are no tensors of Relax, is in the model.
    """

    model: bytes

    @classmethod
    def from_text(cls, text: str) -> "OnnxNode":
        return cls(b64decode(text))

    def __str__(self) -> str:
        return b64encode(self.model).decode()


def onnx_operator(domain: str, op: str) -> str:
    """The operator of the call: `onnx.LSTM`, `com.microsoft.FusedGelu`."""
    standard = domain in ("", "ai.onnx")
    name = f"{domain}.{op}"
    return f"onnx.{op}" if standard else f"onnx.{name}" if name in relax_operators() else name
