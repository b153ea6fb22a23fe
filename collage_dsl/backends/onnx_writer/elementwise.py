"""Write operators that compute each element independently."""

from collections.abc import Mapping, Sequence

import numpy as np

from collage_dsl.backends.onnx_writer.call import Call, Write

_SAME = {
    "abs": "Abs",
    "acos": "Acos",
    "acosh": "Acosh",
    "asin": "Asin",
    "asinh": "Asinh",
    "atan": "Atan",
    "atanh": "Atanh",
    "bitwise_and": "BitwiseAnd",
    "bitwise_not": "BitwiseNot",
    "bitwise_or": "BitwiseOr",
    "bitwise_xor": "BitwiseXor",
    "ceil": "Ceil",
    "cos": "Cos",
    "cosh": "Cosh",
    "divide": "Div",
    "equal": "Equal",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "isinf": "IsInf",
    "isnan": "IsNaN",
    "less": "Less",
    "less_equal": "LessOrEqual",
    "log": "Log",
    "logical_and": "And",
    "logical_not": "Not",
    "logical_or": "Or",
    "logical_xor": "Xor",
    "negative": "Neg",
    "nn.relu": "Relu",
    "nn.selu": "Selu",
    "power": "Pow",
    "round": "Round",
    "sigmoid": "Sigmoid",
    "sign": "Sign",
    "sin": "Sin",
    "sinh": "Sinh",
    "sqrt": "Sqrt",
    "subtract": "Sub",
    "tan": "Tan",
    "tanh": "Tanh",
    "where": "Where",
}
_ARITHMETIC = {
    "add": ("Add", "Or"),
    "maximum": ("Max", "Or"),
    "minimum": ("Min", "And"),
    "multiply": ("Mul", "And"),
}
"""Operators, and what they are for truth values, for which ONNX does not have them."""

_LOGICAL = ("logical_and", "logical_not", "logical_or", "logical_xor")


def _same(name: str) -> Write:
    return lambda call: call.emit(name, *call.tensors)


def _arithmetic(name: str, of_truth: str) -> Write:
    return lambda call: call.emit(of_truth if call.type().dtype == "bool" else name, *call.tensors)


def _logical(name: str) -> Write:
    def write(call: Call) -> str:
        call.require(call.type().dtype == "bool", f"{call.type().dtype} is not bool")
        return call.emit(name, *call.tensors)

    return write


def _is_float(call: Call) -> bool:
    return "float" in call.type().dtype


def _shift(direction: str) -> Write:
    def write(call: Call) -> str:
        dtype = call.type().dtype
        call.require(dtype.startswith("uint"), f"{dtype} is not unsigned")
        return call.emit("BitShift", *call.tensors, direction=direction)

    return write


def _not_equal(call: Call) -> str:
    return call.emit("Not", call.emit("Equal", *call.tensors))


def _is_finite(call: Call) -> str:
    is_nan = call.emit("IsNaN", call.tensor())
    return call.emit("Not", call.emit("Or", is_nan, call.emit("IsInf", call.tensor())))


def _rsqrt(call: Call) -> str:
    return call.emit("Reciprocal", call.emit("Sqrt", call.tensor()))


def _square(call: Call) -> str:
    return call.emit("Mul", call.tensor(), call.tensor())


def _trunc(call: Call) -> str:
    return call.emit(
        "Mul",
        call.emit("Sign", call.tensor()),
        call.emit("Floor", call.emit("Abs", call.tensor())),
    )


def _floor_divide(call: Call) -> str:
    call.require(_is_float(call), "ONNX divides whole numbers towards zero")
    return call.emit("Floor", call.emit("Div", *call.tensors))


def _floor_mod(call: Call) -> str:
    if not _is_float(call):
        return call.emit("Mod", *call.tensors)
    quotient = call.emit("Floor", call.emit("Div", *call.tensors))
    return call.emit("Sub", call.tensor(0), call.emit("Mul", quotient, call.tensor(1)))


def _mod(call: Call) -> str:
    return call.emit("Mod", *call.tensors, fmod=1)


def _gelu(approximate: str) -> Write:
    return lambda call: call.emit("Gelu", call.tensor(), approximate=approximate)


def _silu(call: Call) -> str:
    return call.emit("Mul", call.tensor(), call.emit("Sigmoid", call.tensor()))


def _leaky_relu(call: Call) -> str:
    return call.emit("LeakyRelu", call.tensor(), alpha=float(call.attr("alpha")))


def _softplus(call: Call) -> str:
    """ONNX has no `threshold`, above which Relax has x. From 15 on, that is equal in float32."""
    beta, threshold = call.attr("beta", 1.0), call.attr("threshold", 20.0)
    call.require(threshold >= 15, f"its threshold is {threshold}")
    if beta == 1.0:
        return call.emit("Softplus", call.tensor())
    scaled = call.emit("Softplus", call.emit("Mul", call.tensor(), call.scalar(beta)))
    return call.emit("Div", scaled, call.scalar(beta))


def _prelu(call: Call) -> str:
    """Reshape the slopes: ONNX broadcasts them from the right, Relax has them along one axis."""
    after = call.rank() - 1 - call.axis(call.attr("axis", 1))
    return call.emit("PRelu", call.tensor(), call.reshaped(call.tensor(1), -1, *[1] * after))


def _clip(call: Call) -> str:
    return call.emit("Clip", call.tensor(), _bound(call, 1), _bound(call, 2))


def _bound(call: Call, index: int) -> str:
    """A bound of a `clip`. That of integers may be infinite, or a number that they do not have."""
    bound, dtype = call.literal(index), call.type().dtype
    if not np.issubdtype(dtype, np.integer):
        return call.scalar(float(bound))
    limits = np.iinfo(dtype)
    return call.scalar(int(min(max(bound, limits.min), limits.max)))


def _astype(call: Call) -> str:
    return call.cast(call.tensor(), str(call.attr("dtype")))


def _quantize(call: Call) -> str:
    """Relax may have a zero point of another type than the result, ONNX not."""
    dtype = call.result_dtype
    call.require(dtype in _QUANTIZED, f"a result of {dtype}")
    call.require(call.type(2).dtype == dtype, "a zero point of another type")
    return _linear(call, "QuantizeLinear", dtype)


def _dequantize(call: Call) -> str:
    dtype = call.type().dtype
    call.require(dtype in (*_QUANTIZED, "int32"), f"an operand of {dtype}")
    call.require(call.type(1).dtype == call.result_dtype, "a scale of another type")
    if dtype == "int32":  # onnxruntime takes no other zero point for it than 0.
        zero = call.literals[2]
        call.require(zero is not None and not np.any(zero), "a zero point of int32")
    call.require(call.type(2).dtype == dtype, "a zero point of another type")
    return _linear(call, "DequantizeLinear", dtype)


_LONG = ("int16", "uint16")
_QUANTIZED = ("int8", "uint8", *_LONG)


def _linear(call: Call, op: str, dtype: str) -> str:
    """The standard has 16 bits from operator set 21 on, onnxruntime's own domain always."""
    domain = "com.microsoft" if dtype in _LONG else None
    return call.emit(op, *_operands(call), axis=_axis_of_scale(call), domain=domain)


def _operands(call: Call) -> Sequence[str]:
    """Relax may have one zero point for several scales, ONNX not."""
    x, scale, zero = call.tensors
    if call.rank(1) and not call.rank(2):
        zero = call.emit("Expand", zero, call.emit("Shape", scale))
    return x, scale, zero


def _axis_of_scale(call: Call) -> int:
    """ONNX checks the axis though it says nothing where the scale is one number."""
    return call.axis(call.attr("axis", -1)) if call.rank() and call.rank(1) else 0


OPERATORS: Mapping[str, Write] = {
    **{op: _same(name) for op, name in _SAME.items()},
    **{op: _arithmetic(*names) for op, names in _ARITHMETIC.items()},
    **{op: _logical(_SAME[op]) for op in _LOGICAL},
    "astype": _astype,
    "clip": _clip,
    "dequantize": _dequantize,
    "floor_divide": _floor_divide,
    "floor_mod": _floor_mod,
    "isfinite": _is_finite,
    "left_shift": _shift("LEFT"),
    "mod": _mod,
    "nn.gelu": _gelu("none"),
    "nn.gelu_tanh": _gelu("tanh"),
    "nn.leakyrelu": _leaky_relu,
    "nn.prelu": _prelu,
    "nn.silu": _silu,
    "nn.softplus": _softplus,
    "not_equal": _not_equal,
    "quantize": _quantize,
    "right_shift": _shift("RIGHT"),
    "rsqrt": _rsqrt,
    "square": _square,
    "trunc": _trunc,
}
