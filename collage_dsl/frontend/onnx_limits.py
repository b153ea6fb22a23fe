"""
Find ONNX nodes for which TVM's converter computes something different, and wrong nodes.

They were found by running ONNX's own tests of its operators (onnx.backend.test).
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import onnx

from collage_dsl.frontend.errors import WrongNodeError
from collage_dsl.frontend.onnx_constants import attributes
from collage_dsl.graph.arrays import Array

MICROSOFT = "com.microsoft"

_OF_MICROSOFT = frozenset({
    "Attention", "BiasGelu", "FastGelu",
})  # fmt: skip
"""Operators for which TVM follows onnxruntime's definition, not that of ONNX."""

_OF_BOTH = frozenset({"DequantizeLinear", "QuantizeLinear"})
"""Operators that onnxruntime has in its own domain too, since it takes 16 bits there at any set."""

_TAKE_SHAPES = frozenset({
    "Reshape", "Resize", "ConstantOfShape", "Gather", "Slice", "Shape", "Expand", "Concat",
    "Where", "Cast", "CastLike", "Squeeze",
})  # fmt: skip


def is_known(node: onnx.NodeProto, converters: Collection[str]) -> bool:
    """Whether TVM has a converter for this operator in this domain."""
    is_microsoft = node.domain == MICROSOFT
    if not is_microsoft and node.domain not in ("", "ai.onnx"):
        return False
    is_of_domain = node.op_type in _OF_BOTH or is_microsoft == (node.op_type in _OF_MICROSOFT)
    return is_of_domain and node.op_type in converters


def takes_shapes(op: str) -> bool:
    """Whether TVM's converter accepts a shape instead of a tensor."""
    return op in _TAKE_SHAPES


def newer(op: str) -> int:
    """The first operator set of an operator that onnxruntime takes at any set; else 0."""
    return _NEWER.get(op, 0)


_NEWER = {"LayerNormalization": 17, "SimplifiedLayerNormalization": 23}


def joins(op: str) -> bool:
    """Whether an operator makes numbers of several. TVM divides by their count, even by 0."""
    return op.startswith(("Arg", "Global", "Reduce")) or any(word in op for word in _JOINING)


_JOINING = (
    "Attention",
    "Conv",
    "CumSum",
    "DynamicQuantize",
    "Einsum",
    "Gemm",
    "GridSample",
    "LRN",
    "MatMul",
    "Norm",
    "Pool",
    "Resize",
    "Softmax",
    "Upsample",
)


def limit(
    node: onnx.NodeProto,
    used: Collection[str],
    constant: Callable[[str], Array | None],
    dims: Callable[[str], list[int] | None],
) -> str:
    """
    Why no converter is right for the node, whose outputs `used` are needed; empty if one is. Raises
    `WrongNodeError`.
    """
    if node.op_type in _FIRST_OUTPUT_ONLY and any(name in used for name in node.output[1:]):
        return f"only the first output of {node.op_type} is supported"
    if node.op_type in _WITH_A_FUNCTION and attributes(node).get("noop_with_empty_axes"):
        return "reductions over no axes are not supported"
    if "Sequence" in node.op_type:
        return "sequences of tensors are not supported"
    if node.op_type == "Dropout":
        return "a Dropout that may be trained is not supported"
    if node.op_type == "NonMaxSuppression":
        return "TVM has no kernel of NonMaxSuppression that gives only what is found"
    if node.op_type == "Split" and _has_empty_part(node, constant, dims):
        return "parts of no elements are not supported"
    if node.op_type == "Slice" and _is_nothing(node, constant, dims):
        return "a slice of no elements is not supported"
    attrs = attributes(node)
    if node.op_type in ("CumSum", "TopK"):
        second = constant(node.input[1]) if len(node.input) > 1 else np.asarray(attrs.get("k", 1))
        _check_axis(node, attrs, second, dims(node.input[0]))
        if node.op_type == "TopK" and second is not None and not second.any():
            return "a TopK of no elements is not supported"
    for name, allowed in _ATTRIBUTES.get(node.op_type, {}).items():
        if name in attrs and attrs[name] not in allowed:
            return f"{node.op_type} with this {name} is not supported"
    return ""


def _has_empty_part(
    node: onnx.NodeProto,
    constant: Callable[[str], Array | None],
    dims: Callable[[str], list[int] | None],
) -> bool:
    """Whether a Split gives an empty part, of which TVM's `split` takes only the last."""
    attrs, shape = attributes(node), dims(node.input[0])
    given = constant(node.input[1]) if len(node.input) > 1 and node.input[1] else None
    sizes = attrs.get("split") if given is None else given.tolist()
    if sizes is None and shape is not None:
        size = shape[attrs.get("axis", 0)]
        sizes = [size if size < len(node.output) else 1]
    return sizes is not None and 0 in sizes


def _is_nothing(
    node: onnx.NodeProto,
    constant: Callable[[str], Array | None],
    dims: Callable[[str], list[int] | None],
) -> bool:
    """Whether a Slice begins after its end, which TVM refuses. Raises `WrongNodeError`."""
    attrs, shape = attributes(node), dims(node.input[0])
    bounds: dict[str, Any] = {n: attrs[n] for n in ("starts", "ends", "axes") if n in attrs}
    for name, given in zip(("starts", "ends", "axes", "steps"), node.input[1:], strict=False):
        array = constant(given) if given else None
        if given and array is None:
            return False
        if array is not None and array.ndim != 1:
            raise WrongNodeError(f"the {name} of the slice are no vector")
        if array is not None:
            bounds[name] = array.tolist()
    if shape is None or "starts" not in bounds:
        return False
    count = len(bounds["starts"])
    axes, steps = bounds.get("axes") or range(count), bounds.get("steps") or (1,) * count
    return any(
        not range(*slice(start, end, step).indices(shape[axis]))
        for start, end, axis, step in zip(
            bounds["starts"], bounds["ends"], axes, steps, strict=True
        )
    )


def _check_axis(
    node: onnx.NodeProto, attrs: Mapping[str, Any], second: Array | None, dims: list[int] | None
) -> None:
    """Refuse an axis that is not there, and more elements than it has."""
    if second is None or second.size != 1 or dims is None:
        return
    axis = second.item() if node.op_type == "CumSum" else attrs.get("axis", -1)
    if not -len(dims) <= axis < len(dims):
        raise WrongNodeError(f"the axis {axis} is out of range for {len(dims)} dimensions")
    if node.op_type == "TopK" and not 0 <= second.item() <= dims[axis]:
        raise WrongNodeError(
            f"{second.item()} elements are asked for of an axis of size {dims[axis]}"
        )


_WITH_A_FUNCTION = frozenset({"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceSumSquare"})
"""Reductions that compute something of each element too, which TVM leaves out over no axes."""

_FIRST_OUTPUT_ONLY = frozenset({
    "BatchNormalization", "LayerNormalization", "MaxPool", "SimplifiedLayerNormalization",
})  # fmt: skip

_COORDINATES = (
    b"half_pixel",
    b"pytorch_half_pixel",
    b"align_corners",
    b"asymmetric",
    b"tf_half_pixel_for_nn",
    b"tf_crop_and_resize",
)
"""All of a Resize but `half_pixel_symmetric`, which TVM's operators refuse as a kernel is made."""

_ATTRIBUTES: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "ConvTranspose": {"output_shape": ()},
    "IsInf": {"detect_negative": (1,), "detect_positive": (1,)},
    "LpPool": {"ceil_mode": (0,)},  # TVM multiplies each mean by the size of a whole window.
    "Resize": {"antialias": (0,), "coordinate_transformation_mode": _COORDINATES},
    "RoiAlign": {"mode": (b"avg",)},
    "ScatterElements": {"reduction": (b"none", b"add", b"mul", b"min", b"max")},
    "ScatterND": {"reduction": (b"none", b"add", b"mul", b"min", b"max")},
    "SpaceToDepth": {"mode": (b"DCR",)},
}
