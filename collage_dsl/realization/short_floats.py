"""Operators on float16 and bfloat16 that are computed in float32, as onnxruntime does it."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import tvm
from tvm import relax

Legalizer = Callable[[Any, Any], Any]
"""Makes PrimFuncs of a call, as TVM's LegalizeOps asks for: of a builder and a call."""

_SUMS = (
    "einsum", "matmul", "mean", "prod", "std", "sum", "variance",
    *(f"nn.conv{rank}d{way}" for rank in (1, 2, 3) for way in ("", "_transpose")),
    *(f"nn.{kind}avg_pool{rank}d" for rank in (1, 2, 3) for kind in ("", "adaptive_")),
    "nn.attention", "nn.attention_bias", "nn.batch_norm", "nn.group_norm",
    "nn.instance_norm", "nn.layer_norm", "nn.log_softmax", "nn.rms_norm", "nn.softmax",
)  # fmt: skip
_FUNCTIONS = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp",
    "image.grid_sample", "log", "log_add_exp", "nn.gelu", "nn.gelu_tanh", "nn.selu", "nn.silu",
    "nn.softplus", "power", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "square", "tan", "tanh",
)  # fmt: skip

SHORT: Mapping[str, tuple[str, ...]] = {
    **{f"relax.{name}": ("float16", "bfloat16") for name in _SUMS},
    **{f"relax.{name}": ("float16",) for name in _FUNCTIONS},
}
"""
Operators that add many numbers or compute in several steps, and the types for which they are
computed in float32.

Sums of float16 would overflow at 65504, and lose the last digits of a number that is added to a
large sum. One rounding from float32 at the end is as good as the type allows. TVM itself computes
single steps on bfloat16 in float32.
"""


def in_float32(legalizer: Legalizer, short: Collection[str]) -> Legalizer:
    """`legalizer`, between two conversions if the result has one of the types `short`."""

    def legalized(builder: Any, call: Any) -> Any:
        dtype = _dtype_of_result(call)
        if dtype not in short or getattr(call.attrs, "out_dtype", None):
            return legalizer(builder, call)
        arguments = [_widened(builder, argument) for argument in call.args]
        wide = builder.normalize(tvm.ir.Call(call.op, arguments, call.attrs, call.ty_args))
        return _narrowed(builder, builder.emit(legalizer(builder, wide)), dtype)

    return legalized


def usual(builder: Any, call: Any) -> Any:
    """The call as TVM makes it."""
    return call.op.get_attr("FLegalize")(builder, call)


def _widened(builder: Any, argument: Any) -> Any:
    if isinstance(argument, relax.Tuple):
        return relax.Tuple([_widened(builder, field) for field in argument.fields])
    if "float" not in _dtype(argument):
        return argument
    if isinstance(argument, tvm.ir.GenericConst):
        return relax.const(argument.value.numpy().astype("float32"), "float32")
    return builder.emit(_converted(builder, argument, "float32"))


def _narrowed(builder: Any, value: Any, dtype: str) -> Any:
    """`value`, a tensor or a tuple of tensors, as numbers of `dtype`."""
    if not isinstance(value.ty, relax.TupleType):
        return _converted(builder, value, dtype)
    fields = (builder.emit(relax.TupleGetItem(value, i)) for i in range(len(value.ty.fields)))
    return relax.Tuple([builder.emit(_converted(builder, each, dtype)) for each in fields])


def _converted(builder: Any, value: Any, dtype: str) -> Any:
    return usual(builder, builder.normalize(relax.op.astype(value, dtype)))


def _dtype(value: Any) -> str:
    """The type of the elements of a tensor; empty for other values."""
    return _dtype_in(value.ty)


def _dtype_of_result(call: Any) -> str:
    """The type of the elements of the result, or of the first one if there are several."""
    is_tuple = isinstance(call.ty, relax.TupleType) and len(call.ty.fields) > 0
    return _dtype_in(call.ty.fields[0] if is_tuple else call.ty)


def _dtype_in(type_: Any) -> str:
    if not isinstance(type_, relax.TensorType) or type_.dtype is None:
        return ""
    return str(type_.dtype.dtype)
