"""What a graph says of an ONNX node that is kept as it is."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from weakref import WeakValueDictionary

import onnx
from onnx import TypeProto, helper, numpy_helper

from collage_dsl.frontend.onnx_types import dtype_of, type_text
from collage_dsl.graph import Attribute
from collage_dsl.graph.arrays import Array
from collage_dsl.graph.floats import as_written
from collage_dsl.graph.onnx_node import OnnxNode, onnx_operator
from collage_dsl.graph.operators import operators
from collage_dsl.graph.types import long_dtype


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


@dataclass(frozen=True, slots=True, eq=False)
class Inside:
    """
    A constant in the model of a node: its name, and its places among the operands. Equal ones have
    the same array.
    """

    name: str
    places: tuple[int, ...]
    array: Array


def with_operands_inside(value: OnnxNode) -> tuple[OnnxNode, tuple[Inside, ...]]:
    """
    The node with the places of the constants in its model that are operands, and these constants:
    tensors of numbers, such as those of `int4`. The names of constants are removed from its
    model, so that equal nodes have equal models.
    """
    model = onnx.ModelProto.FromString(value.model)
    if not model.graph.initializer:
        return value, ()
    (node,) = model.graph.node
    operands = list(filter(None, node.input))
    found = []
    for tensor in model.graph.initializer:
        places = tuple(p for p, name in enumerate(operands) if name == tensor.name)
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type).name
        if places and long_dtype(dtype):
            found.append(Inside(tensor.doc_string, places, _array_of(tensor)))
        tensor.ClearField("doc_string")
    inside = tuple(sorted(place for each in found for place in each.places))
    return OnnxNode(model.SerializeToString(deterministic=True), inside), tuple(found)


_ARRAYS: WeakValueDictionary[bytes, Array] = WeakValueDictionary()
"""The arrays that are in use, by a hash of what they were read from."""


def _array_of(tensor: onnx.TensorProto) -> Array:
    """The array of a constant, which several graphs may have. Nothing may write to it."""
    said = f"{tensor.data_type} {list(tensor.dims)} ".encode()
    content = tensor.raw_data or tensor.SerializeToString(deterministic=True)
    key = hashlib.sha256(said + content).digest()
    array = _ARRAYS.get(key)
    if array is None:
        array = _ARRAYS[key] = numpy_helper.to_array(tensor)
        array.flags.writeable = False
    return array


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
