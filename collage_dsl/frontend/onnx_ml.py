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
    array, maker = parts.values.constant(name), parts.values.makers.get(name)
    if array is not None:
        return bool((array >= 0).all())
    return maker is not None and maker.op_type == "ArgMax"


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
    (ML, "LinearRegressor"): _regressed,
    (ML, "Scaler"): _scaled,
}
"""By domain and name, what writes a node as others; it gives None for a node that stays."""
