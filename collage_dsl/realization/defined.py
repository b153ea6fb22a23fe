"""Give the integer operations of PrimFuncs a result for all values of tensors."""

from collections.abc import Callable
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call

from collage_dsl.backends.schedule.expressions import loads

Expr = Any


def with_defined_results(function: Any) -> Any:
    """
    `function` in which these have a result, as in numpy where it has one:

    - division of integers by zero is 0, and so is the rest; that of the least by -1 is the least;
    - a shift of all bits or more is 0, or -1 for a negative number to the right;
    - a float as an integer is rounded toward zero and limited to the range of int32, or int64 for
      uint32 and 64 bits; NaN is 0. Of that, a smaller integer is the last bits.

    On a processor, the first ends the process, and LLVM gives any result for the others.
    """
    callbacks = (
        ((tirx.Div, tirx.FloorDiv), _quotient),
        ((tirx.Mod, tirx.FloorMod), _rest),
        (Call, _shift),
        (tirx.Cast, _cast),
    )
    return function.with_body(tvm_ffi.structural_map(function.body, callbacks))


def _kind(value: Expr) -> tuple[str, int]:
    """The name and bits of a type: `("uint", 8)`."""
    dtype = str(value.ty.dtype)
    name = dtype.rstrip("0123456789")
    return name, int(dtype[len(name) :] or 1)


def _number(dtype: str, value: int) -> Expr:
    return tirx.IntImm(dtype, value)


def _depends_on_data(value: Expr) -> bool:
    return bool(loads(value))


# Divisions.


def _quotient(division: Any) -> Expr:
    divisor = division.b
    if "int" not in _kind(division)[0] or not _depends_on_data(divisor):
        return division
    dtype = str(division.ty.dtype)
    result = type(division)(division.a, _divisor(divisor))
    if dtype.startswith("int"):
        result = tirx.Select(divisor == -1, _negative(division.a, dtype), result)
    return tirx.Select(divisor == 0, _number(dtype, 0), result)


def _rest(division: Any) -> Expr:
    if "int" not in _kind(division)[0] or not _depends_on_data(division.b):
        return division
    return type(division)(division.a, _divisor(division.b))


def _divisor(value: Expr) -> Expr:
    """`value`, or 1 in place of 0 and -1. The rest of a division by 1 is 0, as by -1."""
    one = _number(str(value.ty.dtype), 1)
    bad = value == 0
    if _kind(value)[0] == "int":
        bad = tirx.Or(bad, value == -1)
    return tirx.Select(bad, one, value)


def _negative(value: Expr, dtype: str) -> Expr:
    """`-value` that wraps around: TVM tells LLVM that differences of signed numbers never do."""
    bits = tirx.Cast(f"u{dtype}", value)
    return tirx.Cast(dtype, _number(f"u{dtype}", 0) - bits)


# Shifts.


def _shift(call: Any) -> Expr:
    name = getattr(call.op, "name", "").rpartition(".")[2]
    if name not in ("shift_left", "shift_right") or not _depends_on_data(call.args[1]):
        return call
    value, amount = call.args
    kind, bits = _kind(value)
    dtype = str(value.ty.dtype)
    inside = tirx.And(amount >= 0, amount < bits)
    if name == "shift_left" or kind == "uint":
        shifted = _shifted(call, value, tirx.Select(inside, amount, _number(dtype, 0)))
        return tirx.Select(inside, shifted, _number(dtype, 0))
    return _shifted(call, value, tirx.Select(inside, amount, _number(dtype, bits - 1)))


def _shifted(call: Any, value: Expr, amount: Expr) -> Expr:
    return Call(call.ty, call.op, [value, amount])


# Casts.


def _cast(cast: Any) -> Expr:
    kind, bits = _kind(cast)
    value = cast.value
    if kind not in ("int", "uint") or "float" not in _kind(value)[0] or not _depends_on_data(value):
        return cast
    if _kind(value)[1] < 32:
        value = tirx.Cast("float32", value)
    dtype = str(cast.ty.dtype)
    if dtype == "uint64":
        return _unsigned(value)
    wide = "int64" if bits == 64 or dtype == "uint32" else "int32"
    result = _limited(value, wide)
    return result if dtype == wide else tirx.Cast(dtype, result)


def _limited(value: Expr, dtype: str) -> Expr:
    """`value` as an integer of a signed type. A comparison with NaN is false."""
    end = 2 ** (_kind(tirx.Cast(dtype, value))[1] - 1)
    low, high = _float(value, -end), _float(value, end)
    inside = tirx.Select(value >= low, tirx.Cast(dtype, value), _below(value, low, dtype, -end))
    return tirx.Select(value >= high, _number(dtype, end - 1), inside)


def _below(value: Expr, low: Expr, dtype: str, least: int) -> Expr:
    return tirx.Select(value < low, _number(dtype, least), _number(dtype, 0))


def _unsigned(value: Expr) -> Expr:
    """`value` as uint64. A negative one is the bits of an int64."""
    half, end = _float(value, 2**63), _float(value, 2**64)
    low = tirx.Cast("uint64", _limited(value, "int64"))
    high = tirx.Cast("uint64", value)
    most = tirx.Cast("uint64", _number("int64", -1))
    return tirx.Select(value >= end, most, tirx.Select(value >= half, high, low))


def _float(value: Expr, number: int) -> Expr:
    return tirx.FloatImm(str(value.ty.dtype), float(number))
