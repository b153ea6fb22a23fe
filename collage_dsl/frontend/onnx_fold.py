"""Compute what nodes of an ONNX model give for constants."""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
import onnx
import onnx.shape_inference
from onnx import TensorProto, helper, numpy_helper

from collage_dsl.frontend.errors import FrontendError, WrongNodeError
from collage_dsl.frontend.reference import REFUSALS, reference_session
from collage_dsl.graph.arrays import Array
from collage_dsl.onnx_nodes import graphs_of

# Random operators give a new value each time; patterns for quantized models need the last one.
_NEVER_FOLDED = frozenset({
    "Bernoulli", "DequantizeLinear", "Multinomial", "RandomNormal", "RandomNormalLike",
    "RandomUniform", "RandomUniformLike",
})  # fmt: skip

_EXACT = frozenset({
    "Abs", "Add", "And", "Cast", "Ceil", "Concat", "ConstantOfShape", "Div", "Equal", "Expand",
    "Flatten", "Floor", "Gather", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual",
    "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Reshape", "Shape", "Sign", "Size",
    "Slice", "Squeeze", "Sub", "Transpose", "Unsqueeze", "Where", "Xor",
})  # fmt: skip
"""
Operators of which ONNX's reference implementation gives what onnxruntime gives, bit for bit, and
needs no session. Most constant nodes of models compute shapes with them, or rearrange weights.
"""

_MOST_ELEMENTS = 1 << 27
"""The most elements of a constant that is computed: 512 MiB of float32."""

_MOST_IN_ENGINE = 1 << 24
"""The most elements of what onnxruntime takes or gives: a product of matrices takes a second."""

_MOST_OF_ANY = 1 << 33
"""The most elements of the output of any node."""

_SMALL = 64
"""The most elements of a constant that may be a shape, a size, or a number of repetitions."""


def can_fold(node: onnx.NodeProto) -> bool:
    """Whether the node computes a constant from constant inputs."""
    is_standard = node.domain in ("", "ai.onnx")
    return is_standard and node.op_type not in _NEVER_FOLDED and not any(graphs_of(node))


def fold(
    node: onnx.NodeProto, inputs: Sequence[Array | None], opset: int
) -> dict[str, Array] | None:
    """
    The outputs of a node with constant inputs by name, from onnxruntime without optimisations, or
    from what computes the same. None where onnxruntime does not have the operator for these
    inputs, where too much would have to be computed, and where the outputs are not arrays of the
    types and shapes that ONNX says.
    """
    given = {name: x for name, x in zip(node.input, inputs, strict=True) if x is not None}
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in given.items()
    ]
    names = [name for name in node.output if name]
    outputs = [onnx.ValueInfoProto(name=name) for name in names]
    graph = helper.make_graph([node], "folded", infos, outputs)
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
    inferred = _inferred(model, given)
    is_exact = node.op_type in _EXACT and not _has_text(node, given)
    size = _largest(inferred)
    if size > (_MOST_ELEMENTS if is_exact else _MOST_IN_ENGINE):
        return None
    found = (_reference_outputs if is_exact else _engine_outputs)(model, given)
    if not all(isinstance(value, np.ndarray | np.generic) for value in found):
        return None
    arrays = [np.asarray(value) for value in found]
    if not all(map(_is_of, arrays, (value.type for value in inferred.graph.output))):
        return None
    return dict(zip(names, arrays, strict=True)) if arrays else None


_IR_VERSION = 10
"""Old enough for all versions of onnxruntime, new enough for all types."""


def _has_text(node: onnx.NodeProto, given: Mapping[str, Array]) -> bool:
    to = next((a.i for a in node.attribute if a.name == "to"), 0)
    return to == TensorProto.STRING or any(x.dtype.kind in "OSU" for x in given.values())


def _reference_outputs(model: onnx.ModelProto, given: Mapping[str, Array]) -> Sequence[object]:
    """Nothing where the implementation ends with an error."""
    from onnx.reference import ReferenceEvaluator  # takes half a second to import; seldom needed

    try:
        with np.errstate(all="ignore"):
            found: Sequence[object] = ReferenceEvaluator(model).run(None, given)
    except Exception:  # Of many kinds.
        return ()
    return found


def _engine_outputs(model: onnx.ModelProto, given: Mapping[str, Array]) -> Sequence[object]:
    """
    Nothing where onnxruntime refuses the model or the inputs, or has to take too many. It takes the
    types that numpy has.
    """
    if any(x.dtype.isbuiltin != 1 or x.size > _MOST_IN_ENGINE for x in given.values()):
        return ()
    try:
        found: Sequence[object] = reference_session(model).run(None, given)
    except (FrontendError, *REFUSALS):
        return ()
    return found


def _is_of(array: Array, type_: onnx.TypeProto) -> bool:
    """Whether an array has the type and the shape, as far as these are known."""
    tensor = type_.tensor_type
    if tensor.elem_type in (0, TensorProto.STRING):
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


def _largest(inferred: onnx.ModelProto) -> int:
    """The most elements of an output. Raises `WrongNodeError` for what no memory holds."""
    sizes = [0]
    for value in inferred.graph.output:
        sizes.append(prod(max(dim.dim_value, 1) for dim in value.type.tensor_type.shape.dim))
        if sizes[-1] > _MOST_OF_ANY:
            raise WrongNodeError(f"the constant `{value.name}` has {sizes[-1]} elements")
    return max(sizes)
