"""
Operators on quantized numbers as those on floats, between `DequantizeLinear` and `QuantizeLinear`.

The tools of onnxruntime write `QLinearConv` and its like in the format `QOperator`. A result may
differ from that of the operator in one by one step, where it is next to the middle of two steps.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import onnx

from collage_dsl.frontend.onnx_limits import MICROSOFT
from collage_dsl.frontend.onnx_parts import Parts
from collage_dsl.graph.arrays import Array
from collage_dsl.graph.onnx_node import onnx_operator
from collage_dsl.graph.operators import operators

Nodes = list[onnx.NodeProto]
_BYTES = ("int8", "uint8")


def endless_scale(node: onnx.NodeProto, constant: Callable[[str], Array | None]) -> str:
    """The name of a scale of `node` that is known not to be a finite number, or empty."""
    known = operators().get(onnx_operator(node.domain, node.op_type))
    named = zip((known and known.operands) or (), node.input, strict=False)
    scales = [name for operand, name in named if name and operand.lower().endswith("_scale")]
    arrays = {name: constant(name) for name in scales}
    return next((n for n, a in arrays.items() if a is not None and not np.isfinite(a).all()), "")


def _convolution(parts: Parts) -> Nodes | None:
    attrs = {n: v for n, v in parts.attrs.items() if n != "channels_last"}
    x, weight = _floats(parts, 0), _floats(parts, 3, axis=0)
    if x is None or weight is None or parts.attrs.get("channels_last"):
        return None
    return _quantized(parts, parts.emit("Conv", x, weight, *_bias(parts, 8), **attrs), 6)


def _product(parts: Parts) -> Nodes | None:
    ranks = len(parts.sizes(0)), len(parts.sizes(3))
    x, y = _floats(parts, 0, axis=ranks[0] - 2), _floats(parts, 3, axis=ranks[1] - 1)
    if x is None or y is None:
        return None
    return _quantized(parts, parts.emit("MatMul", x, y), 6)


def _gemm(parts: Parts) -> Nodes | None:
    """A `Gemm`, whose result is a float if it has no scale."""
    x, weight = _floats(parts, 0), _floats(parts, 3, axis=0 if parts.attrs.get("transB") else 1)
    if x is None or weight is None:
        return None
    attrs = {**parts.attrs, "beta": parts.attrs.get("alpha", 1.0)}
    bias = _bias(parts, 6)
    if not bias and parts.values.opset < 11:  # before, a `Gemm` had to have an addend
        bias = [parts.constant(0, "float32")]
    made = parts.emit("Gemm", x, weight, *bias, **attrs)
    return _quantized(parts, made, 7) if parts.operand(7) else parts.result(made)


def _binary(op: str, parts: Parts) -> Nodes | None:
    x, y = _floats(parts, 0), _floats(parts, 3)
    if x is None or y is None:
        return None
    return _quantized(parts, parts.emit(op, x, y), 6)


def _unary(op: str, parts: Parts, **attrs: Any) -> Nodes | None:
    x = _floats(parts, 0)
    return None if x is None else _quantized(parts, parts.emit(op, x, **attrs), 3)


def _pool(op: str, parts: Parts) -> Nodes | None:
    attrs = {n: v for n, v in parts.attrs.items() if n != "channels_last"}
    return None if parts.attrs.get("channels_last") else _unary(op, parts, **attrs)


def _softmax(parts: Parts) -> Nodes | None:
    """
    A `Softmax` as of the operator set that the node names; the last axis is alike in all. That of
    onnxruntime counts in whole parts of the scale, so its results are others where one by the scale
    is no whole number. In unsigned bytes, it gives 0 for a row of one element, as in the attention
    of a text of one token.
    """
    scale = parts.values.constant(parts.operand(3))
    if scale is None or not (np.float32(1) / scale == np.rint(np.float32(1) / scale)).all():
        return None
    rank, axis = len(parts.sizes(0)), parts.attrs.get("axis", -1)
    is_old = parts.attrs.get("opset", 0) < 13
    if is_old != (parts.values.opset < 13) and axis not in (-1, rank - 1):
        return None
    row = parts.sizes(0)[axis % rank :] if is_old else [parts.sizes(0)[axis]]
    if parts.values.dtype(parts.operand(0)) == "uint8" and all(size in (None, 1) for size in row):
        return None
    return _unary("Softmax", parts, axis=axis)


def _concatenation(parts: Parts) -> Nodes | None:
    found = [_floats(parts, place) for place in range(2, len(parts.node.input), 3)]
    floats = [each for each in found if each is not None]
    if len(floats) < len(found):
        return None
    return _quantized(parts, parts.emit("Concat", *floats, axis=parts.attrs["axis"]), 0)


def _where(parts: Parts) -> Nodes | None:
    x, y = _floats(parts, 1), _floats(parts, 4)
    if x is None or y is None:
        return None
    return _quantized(parts, parts.emit("Where", parts.operand(0), x, y), 7)


def _floats(parts: Parts, place: int, axis: int | None = None) -> str | None:
    """
    The floats of a quantized operand, whose scale and zero point follow it: one of each, or along
    `axis`. None for others.
    """
    x, scale, zero = (parts.operand(place + more) for more in range(3))
    if not x or not scale or parts.values.dtype(x) not in _BYTES:
        return None
    given = [place + 1, *([place + 2] if zero else [])]
    if all(_is_one(parts, each) for each in given):
        return parts.emit("DequantizeLinear", x, *(_scalar(parts, each) for each in given))
    if axis is None or axis < 0 or any(len(parts.sizes(each)) != 1 for each in given):
        return None
    count = parts.sizes(place)[axis]
    if any(count not in (None, *parts.sizes(each)) for each in given):  # as onnxruntime may fuse
        return None
    # The operator of the standard has an axis from set 13 on.
    names = map(parts.operand, given)
    return parts.emit("DequantizeLinear", x, *names, axis=axis, domain=MICROSOFT)


def _bias(parts: Parts, place: int) -> list[str]:
    """An int32 operand, if there is one, in the scale of the product of the operands 0 and 3."""
    if not (bias := parts.operand(place)):
        return []
    one, other = (
        _scalar(parts, each) if _is_one(parts, each) else parts.operand(each) for each in (1, 4)
    )
    floats = parts.emit("Cast", bias, to=onnx.TensorProto.FLOAT)
    return [parts.emit("Mul", floats, parts.emit("Mul", one, other))]


def _quantized(parts: Parts, floats: str, place: int) -> Nodes | None:
    """
    The nodes, whose result is `floats` in the scale and with the zero point at `place`; None where
    there are several.
    """
    has_zero = bool(parts.operand(place + 1))
    if not _is_one(parts, place) or (has_zero and not _is_one(parts, place + 1)):
        return None
    if has_zero:
        zero = _scalar(parts, place + 1)
    else:
        zero = parts.constant(0, parts.values.dtype(parts.operand(0)))
    return parts.result(parts.emit("QuantizeLinear", floats, _scalar(parts, place), zero))


def _is_one(parts: Parts, place: int) -> bool:
    return all(size == 1 for size in parts.sizes(place))


def _scalar(parts: Parts, place: int) -> str:
    """An operand of one element as a scalar."""
    name = parts.operand(place)
    if not parts.sizes(place):
        return name
    array = parts.values.constant(name)
    if array is None:
        return parts.emit("Reshape", name, parts.numbers())
    return parts.constant(array.reshape(()), str(array.dtype))


QUANTIZED: Mapping[tuple[str, str], Callable[[Parts], Nodes | None]] = {
    ("", "QLinearConv"): _convolution,
    ("", "QLinearMatMul"): _product,
    (MICROSOFT, "QGemm"): _gemm,
    (MICROSOFT, "QLinearAdd"): partial(_binary, "Add"),
    (MICROSOFT, "QLinearAveragePool"): partial(_pool, "AveragePool"),
    (MICROSOFT, "QLinearConcat"): _concatenation,
    (MICROSOFT, "QLinearConv"): _convolution,
    (MICROSOFT, "QLinearGlobalAveragePool"): partial(_pool, "GlobalAveragePool"),
    (MICROSOFT, "QLinearLeakyRelu"): lambda parts: _unary("LeakyRelu", parts, **parts.attrs),
    (MICROSOFT, "QLinearMul"): partial(_binary, "Mul"),
    (MICROSOFT, "QLinearSigmoid"): partial(_unary, "Sigmoid"),
    (MICROSOFT, "QLinearSoftmax"): _softmax,
    (MICROSOFT, "QLinearWhere"): _where,
}
"""By domain and name, what writes a node as others; it gives None for a node that stays."""
