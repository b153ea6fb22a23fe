"""Write an ONNX node as a call in Relax, and read it."""

from collections.abc import Sequence
from typing import Any

import tvm
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tvm import relax

from collage_dsl.frontend.errors import UnsupportedRelax
from collage_dsl.frontend.onnx_kept import Inside, Kept, kept_node, with_operands_inside
from collage_dsl.graph.onnx_node import ONNX_CALL, OnnxNode
from collage_dsl.graph.operators import CALL_PURE_PACKED

_CALL = tvm.ir.Op.get("relax." + CALL_PURE_PACKED)


def is_onnx(call: Any) -> bool:
    """Whether a call is that of an ONNX node, which `onnx_call` writes."""
    if call.op != _CALL or not isinstance(call.args[0], relax.ExternFunc):
        return False
    return str(call.args[0].global_symbol) == ONNX_CALL


def onnx_node(name: str, call: Any) -> tuple[OnnxNode, Kept, tuple[Inside, ...]]:
    """
    The ONNX node of a call, and the constants inside. Raises `UnsupportedRelax` where it has no
    such node.
    """
    try:
        text = OnnxNode.from_text(str(call.args[1].value))
        value, inside = with_operands_inside(text)
        kept = kept_node(value)
    except (AttributeError, LookupError, ValueError, DecodeError) as error:
        raise UnsupportedRelax(f"`{name}` has no ONNX node: {error}") from error
    if len(kept.operands) != len(call.args) - 2:
        raise UnsupportedRelax(f"`{name}` does not give what its ONNX node takes")
    return value, kept, inside


def onnx_call(node: OnnxNode, operands: Sequence[Any], type_: Any) -> Any:
    """The call of an ONNX node, which gives a value of the Relax type `type_`."""
    text = tvm.ir.StringImm(str(node))
    return relax.call_pure_packed(ONNX_CALL, text, *operands, ty_args=[type_])
