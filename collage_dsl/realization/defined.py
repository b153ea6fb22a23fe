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


def _is_integer(value: Expr) -> bool:
    return _kind(value)[0] in ("int", "uint")


def _depends_on_data(value: Expr) -> bool:
    return bool(loads(value))


# Divisions.


def _quotient(division: Any) -> Expr:
    value, divisor = division.a, division.b
    if not _is_integer(division) or not _depends_on_data(divisor):
        return division
    dtype = str(division.ty.dtype)
    result = type(division)(value, _safe(divisor))
    if dtype.startswith("int"):
        result = tirx.Select(divisor == -1, _negative(value), result)
    return tirx.Select(divisor == 0, _number(dtype, 0), result)


def _rest(division: Any) -> Expr:
    if not _is_integer(division) or not _depends_on_data(division.b):
        return division
    return type(division)(division.a, _safe(division.b))


def _safe(divisor: Expr) -> Expr:
    """
    `divisor`, or 1 in place of 0 and -1: the rest of a division by 1 is 0, as by -1.

    The condition is on the bits, of which TVM knows nothing. Else it would leave the condition out
    where a `Select` around the division has it too, although LLVM computes both sides of that.
    """
    dtype = str(divisor.ty.dtype)
    if dtype.startswith("uint"):
        bad = tirx.reinterpret(dtype[1:], divisor) == 0
    else:
        bits = tirx.reinterpret(f"u{dtype}", divisor)
        bad = tirx.Or(bits == 0, bits == tirx.max_value(f"u{dtype}"))
    return tirx.Select(bad, _number(dtype, 1), divisor)


def _negative(value: Expr) -> Expr:
    """`-value` that wraps around: TVM tells LLVM that sums of signed numbers never do."""
    dtype = str(value.ty.dtype)
    bits = tirx.bitwise_not(tirx.Cast(f"u{dtype}", value)) + 1
    return tirx.Cast(dtype, bits)


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
    return tirx.Select(value >= end, tirx.max_value("uint64"), tirx.Select(value >= half, high, low))


def _float(value: Expr, number: int) -> Expr:
    return tirx.FloatImm(str(value.ty.dtype), float(number))
