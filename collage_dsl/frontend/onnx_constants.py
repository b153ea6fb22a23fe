"""Read the constants and attributes of an ONNX model."""

from typing import Any

import numpy as np
import onnx
from onnx import helper

from collage_dsl.frontend.errors import WrongNodeError
from collage_dsl.frontend.onnx_check import array_of_sparse, array_of_tensor
from collage_dsl.graph.arrays import Array


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes as TVM's converters take them: strings as bytes, lists as tuples."""
    values = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}


def array_of_constant(node: onnx.NodeProto) -> Array:
    """The value of a Constant node."""
    found = attributes(node)
    if len(found) != 1:
        raise WrongNodeError(f"a constant has one value, not {len(found)}")
    [(name, value)] = found.items()
    match name:
        case "value":
            return array_of_tensor(value, "the constant")
        case "sparse_value":
            return array_of_sparse(value, "the constant")
        case "value_int" | "value_ints":
            return np.asarray(value, np.int64)
        case "value_float" | "value_floats":
            return np.asarray(value, np.float32)
        case "value_string":
            return np.asarray(value.decode(), object)
        case "value_strings":
            return np.asarray([each.decode() for each in value], object)
    raise WrongNodeError(f"constants of sort {name} are not supported")


def label(node: onnx.NodeProto) -> str:
    """What a message calls a node."""
    return node.name or next(filter(None, node.output), node.op_type)
