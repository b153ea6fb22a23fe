"""Operators as PrimFuncs: as TVM makes them, but for some that TVM computes differently."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, s_tir, te, tirx, topi

from collage_dsl.backends.schedule.ieee import hidden
from collage_dsl.realization.checked_operators import CHECKED_OPERATORS
from collage_dsl.realization.norms import group_norm, instance_norm, layer_norm, rms_norm
from collage_dsl.realization.replaced import with_functions
from collage_dsl.realization.shaken import is_float
from collage_dsl.realization.short_floats import SHORT, Legalizer, in_float32, usual

Tensor = Any
Expr = Any


def legalized(module: tvm.IRModule, kept: set[str]) -> tvm.IRModule:
    """
    `module` with a PrimFunc for each operator. PrimFuncs with names in `kept` are those of the
    user, and stay as they are.

    Maxima start from minus infinity and minima from infinity, and poolings pad with the same. TVM
    takes the smallest and the largest finite number. Then the maximum of infinities is finite.
    """
    module = relax.transform.LegalizeOps(dict(LEGALIZERS))(module)
    functions = dict(module.functions_items())
    for var, function in module.functions_items():
        if isinstance(function, tirx.PrimFunc) and var.name_hint not in kept:
            functions[var] = _with_infinities(_with_right_counts(function))
    return with_functions(module, functions)


def _with_right_counts(function: Any) -> Any:
    """
    `function`, in which an average pooling counts the elements of a window by divisions that round
    down. Those of TOPI round toward zero, and TVM 0.27 takes vectors of them for the others. Both
    give the same count, which is at least one.
    """

    def counted(block: Any) -> Any:
        if block.annotations.get("schedule_rule") != "meta_schedule.pool_avg":
            return block
        return tvm_ffi.structural_map(block, (tirx.Div, floored))

    def floored(division: Any) -> Expr:
        is_integer = str(division.ty.dtype).startswith("int")
        return tirx.FloorDiv(division.a, division.b) if is_integer else division

    return tvm_ffi.structural_map(function, (s_tir.SBlock, counted))


def _with_infinities(function: Any) -> Any:
    """`function`, which is one operator: so the numbers replaced are not from the model."""
    identities = _identities(function)
    if not identities:
        return function

    def infinite(number: Any) -> Expr:
        dtype = str(number.ty.dtype)
        if (dtype, number.value) not in identities:
            return number
        return tirx.FloatImm(dtype, math.copysign(math.inf, number.value))

    return tvm_ffi.structural_map(function, (tirx.FloatImm, infinite))


def _identities(function: Any) -> set[tuple[str, float]]:
    """The types and numbers from which maxima and minima of floats in `function` start."""
    found: set[tuple[str, float]] = set()

    def note(block: Any) -> None:
        body, init = block.body, block.init
        if not isinstance(init, tirx.BufferStore) or not isinstance(body, tirx.BufferStore):
            return
        start = init.value
        if isinstance(body.value, tirx.Max | tirx.Min) and isinstance(start, tirx.FloatImm):
            found.add((str(start.ty.dtype), start.value))

    tvm_ffi.structural_walk(function, (s_tir.SBlock, note))
    return found


# Operators with a definition of ours.


def _arg(extremum: Callable[..., Tensor]) -> Legalizer:
    def legalizer(builder: Any, call: Any) -> Any:
        axis = None if call.attrs.axis is None else int(call.attrs.axis)
        keepdims = bool(call.attrs.keepdims)
        return builder.call_te(
            lambda x: _first_place(x, axis, keepdims, extremum),
            call.args[0],
            primfunc_name_hint=str(call.op.name).removeprefix("relax."),
        )

    return legalizer


def _first_place(
    x: Tensor, axis: int | None, keepdims: bool, extremum: Callable[..., Tensor]
) -> Tensor:
    """
    The first index at which `x` has its maximum or minimum along an axis. NaN is both.

    TVM starts from the index -1 and the smallest number, and returns -1 if all are -inf.
    """
    if axis is None:
        flat = topi.reshape(x, (_product(x.shape),))
        whole = _first_place(flat, 0, False, extremum)
        return topi.reshape(whole, (1,) * len(x.shape)) if keepdims else whole
    if x.dtype == "bfloat16":  # of which TVM 0.27 makes no code here
        x = topi.cast(x, "float32")
    axis %= len(x.shape)
    best = extremum(x, axis, True)
    extent = x.shape[axis]
    is_short = isinstance(extent, tirx.IntImm) and int(extent) < 2**31
    dtype = "int32" if is_short else "int64"

    def place(*at: Expr) -> Expr:
        here, beyond = tirx.Cast(dtype, at[axis]), tirx.max_value(dtype)
        is_best = tirx.EQ(x(*at), best(*at[:axis], 0, *at[axis + 1 :]))
        found = tirx.Select(is_best, here, beyond)
        return tirx.Select(x(*at) <= _infinity(x), found, here) if _is_float(x) else found

    first = topi.min(te.compute(x.shape, place, name="places"), axis, keepdims)
    return topi.cast(first, "int64")


def _product(extents: Any) -> Expr:
    result = extents[0]
    for extent in extents[1:]:
        result = result * extent
    return result


def _sign(builder: Any, call: Any) -> Any:
    """The sign, which is NaN for NaN; TVM gives 0."""
    return builder.call_te(_te_sign, call.args[0], primfunc_name_hint="tir_sign")


def _te_sign(x: Tensor) -> Tensor:
    if not _is_float(x):
        return topi.sign(x)
    zero, one, minus_one = (tirx.const(number, x.dtype) for number in (0.0, 1.0, -1.0))

    def sign(*at: Expr) -> Expr:
        value = x(*at)
        rest = tirx.Select(value <= _infinity(x), zero, value)
        return tirx.Select(value > zero, one, tirx.Select(value < zero, minus_one, rest))

    return te.compute(x.shape, sign, name="sign")


def _prelu(builder: Any, call: Any) -> Any:
    return builder.call_te(
        _te_prelu, call.args[0], call.args[1], int(call.attrs.axis), primfunc_name_hint="prelu"
    )


def _te_prelu(x: Tensor, slope: Tensor, axis: int) -> Tensor:
    """`slope * x` below zero. TVM computes it at zero too, where an infinite slope gives NaN."""
    is_one = isinstance(slope.shape[0], tirx.IntImm) and int(slope.shape[0]) == 1

    def value(*at: Expr) -> Expr:
        below = x(*at) * slope(0 if is_one else at[axis])
        return tirx.Select(x(*at) < tirx.const(0, x.dtype), below, x(*at))

    return te.compute(x.shape, value, name="prelu")


def _keeping_zeros(node: Any, otherwise: Legalizer) -> Legalizer:
    """A product or quotient with a constant zero, which TVM simplifies to zero."""

    def legalizer(builder: Any, call: Any) -> Any:
        zeros = [_is_zero(argument) for argument in call.args]
        if sum(zeros) != 1:
            return otherwise(builder, call)
        place = zeros.index(True)

        def elementwise(x: Tensor) -> Tensor:
            zero = hidden(tirx.const(float(call.args[place].value.numpy()), x.dtype))
            operands = (lambda *at: (zero, x(*at))) if place == 0 else (lambda *at: (x(*at), zero))
            return te.compute(x.shape, lambda *at: node(*operands(*at)), name="product")

        return builder.call_te(elementwise, call.args[1 - place])

    return legalizer


def _dequantize(builder: Any, call: Any) -> Any:
    """With one number for zero points that are all the same, which TVM takes into the code."""
    data, scale, zero = call.args
    if isinstance(zero, tvm.ir.GenericConst) and (values := zero.value.numpy()).ndim:
        first, *_ = values.flat
        if (values == first).all():
            number = relax.const(first, str(values.dtype))
            return usual(builder, tvm.ir.Call(call.op, [data, scale, number], call.attrs))
    return usual(builder, call)


def _is_zero(argument: Any) -> bool:
    """Whether an argument is the constant float zero, as a scalar."""
    if not _is_scalar(argument):
        return False
    array = argument.value.numpy()
    return is_float(array) and float(array) == 0


def _extern(name: str) -> Legalizer:
    """A function of the C library, which TVM approximates badly or not at all."""

    def apply(x: Tensor) -> Tensor:
        symbol = f"{name}f" if x.dtype == "float32" else name
        return te.compute(x.shape, lambda *at: tirx.call_pure_extern(x.dtype, symbol, x(*at)))

    return lambda builder, call: builder.call_te(apply, call.args[0], primfunc_name_hint=name)


def _arange(builder: Any, call: Any) -> Any:
    """The numbers as a function. TVM makes a constant of them, which no kernel can have inside."""
    dtype, [size] = str(call.attrs.dtype), call.ty.shape
    if all(isinstance(each, tirx.IntImm | tirx.FloatImm) for each in call.args):
        bounds = [each.value for each in call.args]
        return builder.call_te(topi.arange, *bounds, dtype, primfunc_name_hint="arange")

    def counted(start: Expr, step: Expr, size: Expr) -> Tensor:
        return te.compute((size,), lambda i: tirx.Cast(dtype, start + i * step))

    start, _, step = call.args
    return builder.call_te(counted, start, step, size, primfunc_name_hint="arange")


def _adaptive_avg_pool1d(builder: Any, call: Any) -> Any:
    """Without a size, the result has that of the operand. TVM gives TOPI no array of sizes then."""
    attrs = call.attrs
    if attrs.output_size is not None or attrs.out_layout != attrs.layout:
        return usual(builder, call)

    def pooled(x: Tensor) -> Tensor:
        size = x.shape[str(attrs.layout).index("W")]
        return topi.nn.adaptive_pool1d(x, [size], "avg", str(attrs.layout))

    return builder.call_te(pooled, call.args[0], primfunc_name_hint="adaptive_avg_pool1d")


def _clip(builder: Any, call: Any) -> Any:
    """TVM refuses bounds of integers that are infinite or no numbers of their type."""
    x, *bounds = call.args
    dtype = str(x.ty.dtype.dtype)
    if "int" not in dtype or not all(isinstance(b, tirx.IntImm | tirx.FloatImm) for b in bounds):
        return usual(builder, call)
    limits = np.iinfo(dtype)
    within = [min(max(bound.value, limits.min), limits.max) for bound in bounds]
    return usual(builder, builder.normalize(relax.op.clip(x, *map(int, within))))


def _resize(builder: Any, call: Any) -> Any:
    """Where corners are aligned, TVM divides by zero for one pixel, which is the first of two."""
    data, size = call.args
    sides = size.values
    is_one = [isinstance(side, tirx.IntImm) and int(side) == 1 for side in sides]
    if call.attrs.coordinate_transformation_mode != "align_corners" or not any(is_one):
        return usual(builder, call)
    two = [tirx.const(2, "int64") if one else side for one, side in zip(is_one, sides, strict=True)]
    wide = tvm.ir.Call(call.op, [data, relax.ShapeExpr(two)], call.attrs, call.ty_args)
    resized = builder.emit(usual(builder, builder.normalize(wide)))
    shape = call.ty.shape
    return builder.call_te(
        lambda x: te.compute(shape, lambda *at: x(*at), name="first"),
        resized,
        primfunc_name_hint="first",
    )


def _pixel_shuffle(builder: Any, call: Any) -> Any:
    """TVM calls a function of TOPI that does not exist."""
    factor = int(call.attrs.upscale_factor)

    def shuffled(x: Tensor) -> Tensor:
        *outer, channels, height, width = x.shape
        shape = (*outer, channels // factor**2, height * factor, width * factor)

        def pixel(*at: Expr) -> Expr:
            *before, channel, row, column = at
            place = row % factor * factor + column % factor
            return x(*before, channel * factor**2 + place, row // factor, column // factor)

        return te.compute(shape, pixel, name="pixel_shuffle")

    return builder.call_te(shuffled, call.args[0], primfunc_name_hint="pixel_shuffle")


def _ewise_fma(builder: Any, call: Any) -> Any:
    """TVM has no function for it."""

    def sum_of_product(x: Tensor, factor: Tensor, summand: Tensor) -> Tensor:
        return topi.add(topi.multiply(x, factor), summand)

    return builder.call_te(sum_of_product, *call.args, primfunc_name_hint="ewise_fma")


def _of_truth_values(function: Callable[..., Tensor], otherwise: Legalizer) -> Legalizer:
    """`function` of truth values, of which TVM makes no code, or not this one."""

    def legalizer(builder: Any, call: Any) -> Any:
        is_of_truth = all(str(each.ty.dtype.dtype) == "bool" for each in call.args)
        if not is_of_truth or all(map(_is_scalar, call.args)):
            return otherwise(builder, call)
        operands = map(_number_of, call.args)
        name = str(call.op.name).removeprefix("relax.")
        return builder.call_te(function, *operands, primfunc_name_hint=name)

    return legalizer


def _number_of(argument: Any) -> Any:
    """A constant truth value as a number, since a kernel has no tensors inside."""
    return tirx.const(bool(argument.value.numpy()), "bool") if _is_scalar(argument) else argument


def _is_scalar(argument: Any) -> bool:
    return isinstance(argument, tvm.ir.GenericConst) and argument.ty.ndim == 0


def _compared(compare: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A comparison in which truth values are numbers: LLVM would compare them as floats."""
    return lambda *operands: compare(*(topi.cast(each, "uint8") for each in operands))


def _is_float(x: Tensor) -> bool:
    return "float" in str(x.dtype)


def _infinity(x: Tensor) -> Expr:
    return tirx.FloatImm(x.dtype, math.inf)


_OURS: Mapping[str, Legalizer] = {
    **CHECKED_OPERATORS,
    "relax.add": _of_truth_values(topi.logical_or, usual),
    "relax.arange": _arange,
    "relax.argmax": _arg(topi.max),
    "relax.argmin": _arg(topi.min),
    "relax.atanh": _extern("atanh"),
    "relax.clip": _clip,
    "relax.cosh": _extern("cosh"),
    "relax.equal": _of_truth_values(_compared(topi.equal), usual),
    "relax.not_equal": _of_truth_values(_compared(topi.not_equal), usual),
    "relax.divide": _keeping_zeros(tirx.Div, CHECKED_OPERATORS["relax.divide"]),
    "relax.ewise_fma": _ewise_fma,
    "relax.dequantize": _dequantize,
    "relax.image.resize2d": _resize,
    "relax.image.resize3d": _resize,
    "relax.maximum": _of_truth_values(topi.logical_or, usual),
    "relax.minimum": _of_truth_values(topi.logical_and, usual),
    "relax.multiply": _of_truth_values(topi.logical_and, _keeping_zeros(tirx.Mul, usual)),
    "relax.nn.adaptive_avg_pool1d": _adaptive_avg_pool1d,
    "relax.nn.group_norm": group_norm,
    "relax.nn.instance_norm": instance_norm,
    "relax.nn.layer_norm": layer_norm,
    "relax.nn.pixel_shuffle": _pixel_shuffle,
    "relax.nn.prelu": _prelu,
    "relax.nn.rms_norm": rms_norm,
    "relax.sign": _sign,
    "relax.sinh": _extern("sinh"),
}

LEGALIZERS: Mapping[str, Legalizer] = {
    **_OURS,
    **{name: in_float32(_OURS.get(name, usual), short) for name, short in SHORT.items()},
}
