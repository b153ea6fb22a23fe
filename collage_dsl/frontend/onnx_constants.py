"""Read the constants and attributes of an ONNX model, and fold nodes of constant inputs."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
from onnx import helper, numpy_helper

from collage_dsl.frontend.arrays import Array
from collage_dsl.frontend.errors import WrongNodeError
from collage_dsl.frontend.onnx_check import array_of_sparse, array_of_tensor

# Random operators give a new value each time; patterns for quantized models need the last one.
_NEVER_FOLDED = frozenset({
    "Bernoulli", "DequantizeLinear", "Multinomial", "RandomNormal", "RandomNormalLike",
    "RandomUniform", "RandomUniformLike",
})  # fmt: skip

_DIFFERENT = ("Conv", "LogSoftmax", "Norm", "Pool", "RoiAlign", "Unique")
"""
Words in the names of operators that the reference implementation computes in another way than
onnxruntime: with other places of maxima, other shapes, or an overflow.
"""


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


def can_fold(node: onnx.NodeProto) -> bool:
    """Whether the node computes a constant from constant inputs."""
    standard = node.domain in ("", "ai.onnx")
    is_known = node.op_type not in _NEVER_FOLDED and not _is_reduction_of_nothing(node)
    is_same = not any(word in node.op_type for word in _DIFFERENT)
    return standard and is_known and is_same and not _has_graph(node)


def _is_reduction_of_nothing(node: onnx.NodeProto) -> bool:
    """Such as a sum of squares over no axes: the reference implementation gives no squares."""
    flags = (each.i for each in node.attribute if each.name == "noop_with_empty_axes")
    return node.op_type.startswith("Reduce") and any(flags)


_SAME_SINCE = {"Softmax": 13, "Hardmax": 13, "Resize": 11}
"""
The operator set from which an operator is what the reference implementation takes it for. It knows
older definitions of other operators.
"""


def _has_graph(node: onnx.NodeProto) -> bool:
    return any(a.HasField("g") or a.graphs for a in node.attribute)


def fold(
    node: onnx.NodeProto, inputs: Sequence[Array | None], opset: int
) -> dict[str, Array] | None:
    """
    The outputs of a node with constant inputs by name, from ONNX's reference implementation. None
    where it does not have the operator, where they are not all arrays, and where they do not have
    the types and shapes that ONNX says.
    """
    from onnx.reference import ReferenceEvaluator  # takes half a second to import; seldom needed

    if opset < _SAME_SINCE.get(node.op_type, 1):
        return None
    given = {name: x for name, x in zip(node.input, inputs, strict=True) if x is not None}
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in given.items()
    ]
    names = [name for name in node.output if name]
    outputs = [onnx.ValueInfoProto(name=name) for name in names]
    graph = helper.make_graph([node], "folded", infos, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    inferred = _inferred(model, given)
    _check_sizes(inferred)
    try:
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(model).run(None, given)
    except Exception:  # Of many kinds.
        return None
    if not all(isinstance(value, np.ndarray | np.generic) for value in found):
        return None
    arrays = [np.asarray(value) for value in found]
    if not all(map(_is_of, arrays, (value.type for value in inferred.graph.output))):
        return None
    return dict(zip(names, arrays, strict=True))


def _is_of(array: Array, type_: onnx.TypeProto) -> bool:
    """Whether an array has the type and the shape, as far as these are known."""
    tensor = type_.tensor_type
    if tensor.elem_type in (0, onnx.TensorProto.STRING):
        return True
    if helper.tensor_dtype_to_np_dtype(tensor.elem_type) != array.dtype:
        return False
    dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
    return not tensor.HasField("shape") or (
        len(dims) == array.ndim
        and all(dim in (None, size) for dim, size in zip(dims, array.shape, strict=True))
    )


def _inferred(model: onnx.ModelProto, given: Mapping[str, Array]) -> onnx.ModelProto:
    """`model` with the types of its outputs, for which small constants count."""
    sized = onnx.ModelProto()
    sized.CopyFrom(model)
    small = {name: x for name, x in given.items() if 0 < x.size <= _SMALL}
    sized.graph.initializer.extend(numpy_helper.from_array(x, name) for name, x in small.items())
    return onnx.shape_inference.infer_shapes(sized, data_prop=True)


def _check_sizes(inferred: onnx.ModelProto) -> None:
    """Refuse a node with an output that is too large to be computed here."""
    for value in inferred.graph.output:
        elements = prod(max(dim.dim_value, 1) for dim in value.type.tensor_type.shape.dim)
        if elements > _MOST_FOLDED:
            raise WrongNodeError(f"the constant `{value.name}` has {elements} elements")


_SMALL = 64
"""The most elements of a constant that may be a shape, a size, or a number of repetitions."""

_MOST_FOLDED = 1 << 27
"""The most elements of a constant that is computed: 512 MiB of float32."""


def label(node: onnx.NodeProto) -> str:
    """What a message calls a node."""
    return node.name or next(filter(None, node.output), node.op_type)
