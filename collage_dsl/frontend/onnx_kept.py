"""What a graph says of an ONNX node that is kept as it is."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import onnx
from onnx import TypeProto, helper

from collage_dsl.frontend.onnx_types import dtype_of, type_text
from collage_dsl.graph import Attribute
from collage_dsl.graph.floats import as_written
from collage_dsl.graph.onnx_node import OnnxNode, onnx_operator
from collage_dsl.graph.operators import operators


@dataclass(frozen=True, slots=True)
class Kept:
    """
    What a graph has of a node: the operator, its attributes that are numbers and texts, and the
    types of operands and results, as texts where these are no tensors.
    """

    op: str
    attrs: Mapping[str, Attribute]
    operands: tuple[str, ...]
    results: tuple[str, ...]


@lru_cache(maxsize=1024)
def kept_node(node: OnnxNode) -> Kept:
    model = onnx.ModelProto.FromString(node.model)
    (proto,) = model.graph.node
    op = onnx_operator(proto.domain, proto.op_type)
    attrs = {a.name: _attribute(helper.get_attribute_value(a)) for a in proto.attribute}
    known = operators().get(op)
    usual = known.defaults if known else {}
    return Kept(
        op,
        {**usual, **{name: value for name, value in attrs.items() if value is not None}},
        tuple(_text_of(value.type) for value in model.graph.input),
        tuple(_text_of(value.type) for value in model.graph.output),
    )


def _text_of(type_: TypeProto) -> str:
    return "" if dtype_of(type_) else type_text(type_)


def _attribute(value: Any) -> Attribute:
    """None for a tensor or a graph."""
    match value:
        case bytes():
            return value.decode("utf-8", "replace")
        case bool() | int() | str():
            return value
        case float():
            return as_written(value)
        case list() | tuple():
            parts = tuple(map(_attribute, value))
            return None if None in parts else parts
    return None
