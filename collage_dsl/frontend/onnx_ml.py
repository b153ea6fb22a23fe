"""
Operators of `ai.onnx.ml` that are arithmetic, as operators of the standard.

They are what the kernels of onnxruntime compute in float32, for rows of features.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx

from collage_dsl.frontend.onnx_ml_shapes import ML
from collage_dsl.frontend.onnx_parts import Parts

Nodes = list[onnx.NodeProto]


def _extracted(parts: Parts) -> Nodes | None:
    """Elements along the last axis. Only of a vector, there is one more axis."""
    rank = len(parts.sizes(0))
    if not rank or not _is_never_negative(parts, parts.operand(1)):
        return None
    flat = parts.emit("Reshape", parts.operand(1), parts.numbers(-1))
    found = parts.emit("Gather", parts.operand(0), flat, axis=rank - 1)
    if rank == 1:
        found = parts.emit("Reshape", found, parts.numbers(1, -1))
    return parts.result(found)


def _is_never_negative(parts: Parts, name: str) -> bool:
    """Whether indices are known not to count from the end, which only a `Gather` allows."""
    array = parts.values.constant(name)
    if array is not None:
        return bool((array >= 0).all())
    maker = parts.values.makers.get(name)
    while maker is not None and maker.op_type in _MOVES:
        name = maker.input[0]
        maker = parts.values.makers.get(name)
    if maker is None:
        return False
    places = _PLACES.get(maker.op_type)
    return places is not None and list(maker.output).index(name) == places


_MOVES = frozenset(("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"))
_PLACES: Mapping[str, int] = {"ArgMax": 0, "ArgMin": 0, "NonZero": 0, "TopK": 1}
"""Which output of an operator is places along an axis."""


def _imputed(parts: Parts) -> Nodes | None:
    numbers = parts.attrs.get("imputed_value_floats")
    if not _is_float32(parts) or not _fit(parts, numbers):
        return None
    x, missing = parts.operand(0), parts.attrs.get("replaced_value_float", 0.0)
    if np.isnan(missing):
        is_missing = parts.emit("IsNaN", x)
    else:
        is_missing = parts.emit("Equal", x, parts.constant(missing, "float32"))
    return parts.result(parts.emit("Where", is_missing, parts.constant(numbers, "float32"), x))


def _normalized(parts: Parts) -> Nodes | None:
    """Rows over their norms; a row whose norm is 0 stays."""
    if not _is_float32(parts) or len(parts.sizes(0)) != 2:
        return None
    x, zero, columns = parts.operand(0), parts.constant(0.0, "float32"), parts.numbers(1)
    norm = parts.attrs.get("norm", b"MAX")
    if norm == b"L2":
        squares = parts.emit("Mul", x, x)
        total = _sum(parts, squares, columns)
        size = parts.emit("Sqrt", parts.emit("Div", squares, total))
        scaled = parts.emit("Where", parts.emit("Less", x, zero), parts.emit("Neg", size), size)
    elif norm == b"L1":
        total = _sum(parts, parts.emit("Abs", x), columns)
        scaled = parts.emit("Div", x, total)
    else:
        return None
    return parts.result(parts.emit("Where", parts.emit("Equal", total, zero), x, scaled))


def _sum(parts: Parts, x: str, axes: str) -> str:
    if parts.values.opset >= 13:
        return parts.emit("ReduceSum", x, axes, keepdims=1)
    return parts.emit("ReduceSum", x, axes=[1], keepdims=1)


def _classified(parts: Parts) -> Nodes | None:
    """The label of the largest score, and the scores, of two classes or more with numbers."""
    attrs, sizes = parts.attrs, parts.sizes(0)
    labels, factors = attrs.get("classlabels_ints", ()), attrs.get("coefficients", ())
    shift = attrs.get("intercepts") or [0.0] * len(labels)
    transform = _TRANSFORMS.get(attrs.get("post_transform", b"NONE"))
    is_plain = transform is not None and _is_float32(parts) and len(sizes) == 2
    if not is_plain or sizes[1] is None or not 2 <= len(labels) == len(shift):
        return None
    if len(factors) != len(labels) * sizes[1]:
        return None
    weight = parts.constant(np.reshape(factors, (len(labels), sizes[1])), "float32")
    bias = parts.constant(shift, "float32")
    scores = parts.emit("Gemm", parts.operand(0), weight, bias, transB=1)
    found = parts.emit("ArgMax", scores, axis=1, keepdims=0)
    label = parts.emit("Gather", parts.numbers(*labels), found)
    if transform == "Softmax":
        scores = parts.emit(transform, scores, axis=1)
    elif transform:
        scores = parts.emit(transform, scores)
    return parts.result(label, scores)


_TRANSFORMS = {b"NONE": "", b"LOGISTIC": "Sigmoid", b"SOFTMAX": "Softmax"}
"""The operator that makes scores of a `post_transform`."""


def _regressed(parts: Parts) -> Nodes | None:
    attrs, sizes = parts.attrs, parts.sizes(0)
    targets, factors = attrs.get("targets", 1), attrs.get("coefficients", ())
    shift = attrs.get("intercepts") or [0.0] * targets
    is_plain = attrs.get("post_transform", b"NONE") == b"NONE" and _is_float32(parts)
    if not is_plain or len(sizes) != 2 or len(shift) != targets:
        return None
    if sizes[1] is None or len(factors) != targets * sizes[1]:
        return None
    weight = parts.constant(np.reshape(factors, (targets, sizes[1])), "float32")
    bias = parts.constant(shift, "float32")
    return parts.result(parts.emit("Gemm", parts.operand(0), weight, bias, transB=1))


def _scaled(parts: Parts) -> Nodes | None:
    offset, scale = parts.attrs.get("offset"), parts.attrs.get("scale")
    if not _is_float32(parts) or not _fit(parts, offset) or not _fit(parts, scale):
        return None
    moved = parts.emit("Sub", parts.operand(0), parts.constant(offset, "float32"))
    return parts.result(parts.emit("Mul", moved, parts.constant(scale, "float32")))


def _is_float32(parts: Parts) -> bool:
    return parts.values.dtype(parts.operand(0)) == "float32"


def _fit(parts: Parts, numbers: Sequence[float] | None) -> bool:
    """Whether there is one number, or one for each feature."""
    sizes = parts.sizes(0)
    return bool(numbers) and len(sizes) in (1, 2) and len(numbers or ()) in (1, sizes[-1])


MACHINE_LEARNING: Mapping[tuple[str, str], Callable[[Parts], Nodes | None]] = {
    (ML, "ArrayFeatureExtractor"): _extracted,
    (ML, "Imputer"): _imputed,
    (ML, "LinearClassifier"): _classified,
    (ML, "LinearRegressor"): _regressed,
    (ML, "Normalizer"): _normalized,
    (ML, "Scaler"): _scaled,
}
"""By domain and name, what writes a node as others; it gives None for a node that stays."""
