"""Read the constants and attributes of an ONNX model, and fold nodes of constant inputs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from collage_dsl.frontend.arrays import Array
from collage_dsl.frontend.errors import CannotConvertError

# Random operators give a new value each time; patterns for quantized models need the last one.
_NEVER_FOLDED = frozenset({
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
    "RandomUniformLike", "DequantizeLinear",
})  # fmt: skip


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes as TVM's converters take them: strings as bytes, lists as tuples."""
    values = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}


def array_of_constant(node: onnx.NodeProto) -> Array:
    """The value of a Constant node."""
    [(name, value)] = attributes(node).items()
    match name:
        case "value":
            return numpy_helper.to_array(value)
        case "value_int" | "value_ints":
            return np.asarray(value, np.int64)
        case "value_float" | "value_floats":
            return np.asarray(value, np.float32)
    raise CannotConvertError(f"constants of sort {name} are not supported")


def can_fold(node: onnx.NodeProto) -> bool:
    """Whether the node computes a constant from constant inputs."""
    standard = node.domain in ("", "ai.onnx")
    return standard and node.op_type not in _NEVER_FOLDED and not _has_graph(node)


def _has_graph(node: onnx.NodeProto) -> bool:
    return any(a.HasField("g") or a.graphs for a in node.attribute)


def fold(node: onnx.NodeProto, inputs: Sequence[Array | None], opset: int) -> list[Array]:
    """The outputs of a node with constant inputs, from ONNX's reference implementation."""
    from onnx.reference import ReferenceEvaluator  # takes half a second to import; seldom needed

    given = {name: x for name, x in zip(node.input, inputs, strict=True) if x is not None}
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in given.items()
    ]
    names = [name for name in node.output if name]
    outputs = [onnx.ValueInfoProto(name=name) for name in names]
    graph = helper.make_graph([node], "folded", infos, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return [np.asarray(value) for value in ReferenceEvaluator(model).run(None, given)]


def label(node: onnx.NodeProto) -> str:
    """What a message calls a node."""
    return node.name or next(filter(None, node.output), node.op_type)
