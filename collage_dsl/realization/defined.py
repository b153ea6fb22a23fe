"""
Give integer operations a result for all values of tensors. Else a division ends the process, and
LLVM may give anything for the others.
"""

from collections.abc import Callable
from typing import Any

import tvm_ffi
from tvm import tirx

from collage_dsl.backends.schedule.expressions import loads, replace_loads
from collage_dsl.backends.schedule.ieee import named

Expr = Any


def with_defined_integers(function: Any) -> Any:
    """
    `function` in which these have a result, that of numpy where it has one:

    - A division by zero is 0, and so is the rest. The least number divided by -1 is itself.
    - A shift by all bits or more, or by a negative number, is 0; to the right, that of a negative
      number is -1.
    """
    rewritten = (
        ((tirx.Div, tirx.FloorDiv), _quotient),
        ((tirx.Mod, tirx.FloorMod), _rest),
        ((tirx.LShift, tirx.RShift), _shift),
    )
    return function.with_body(tvm_ffi.structural_map(function.body, rewritten))


def with_defined_casts(function: Any, kind: str) -> Any:
    """
    `function`, scheduled for a target of this `kind`, in which a float as an integer is rounded
    toward zero and limited to the range of int32, or of int64 for uint32 and int64. NaN is 0. A
    smaller integer is the last bits of that.

    LLVM has instructions for it, which neither TVM nor LLVM vectorises. They are for indices, of
    which functions such as `roi_align` have hundreds.
    """
    body = function.body
    if kind == "llvm":
        body = tvm_ffi.structural_map(body, (tirx.For, _with_vectors))
        body = replace_loads(body, lambda load: _with_casts(load, _saturated))
    return function.with_body(_with_casts(body, _compared))


def _with_vectors(loop: Any) -> Any:
    is_vector = loop.kind == tirx.ForKind.VECTORIZED
    return _with_casts(loop, _compared) if is_vector else loop


def _dtype(value: Expr) -> str:
    return str(value.ty.dtype)


def _bits(dtype: str) -> int:
    return int(dtype.lstrip("abcdefghijklmnopqrstuvwxyz"))


def _is_integer(value: Expr) -> bool:
    return _dtype(value).startswith(("int", "uint"))


def _depends_on_data(value: Expr) -> bool:
    """Whether `value` is computed from tensors, not only from numbers, loops and dimensions."""
    return bool(loads(value))


# Divisions.


def _quotient(division: Any) -> Expr:
    value, divisor = division.a, division.b
    if not _is_integer(division) or not _depends_on_data(divisor):
        return division
    dtype = _dtype(division)
    result = type(division)(value, _safe(divisor))
    if dtype.startswith("int"):
        result = tirx.Select(divisor == -1, _negative(value), result)
    return tirx.Select(divisor == 0, tirx.IntImm(dtype, 0), result)


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
    dtype = _dtype(divisor)
    if dtype.startswith("uint"):
        bad = tirx.reinterpret(dtype[1:], divisor) == 0
    else:
        bits = tirx.reinterpret(f"u{dtype}", divisor)
        bad = tirx.Or(bits == 0, bits == tirx.max_value(f"u{dtype}"))
    return tirx.Select(bad, tirx.IntImm(dtype, 1), divisor)


def _negative(value: Expr) -> Expr:
    """`-value` that wraps around: TVM tells LLVM that sums of signed numbers never do."""
    dtype = _dtype(value)
    bits = tirx.bitwise_not(tirx.Cast(f"u{dtype}", value)) + 1
    return tirx.Cast(dtype, bits)


# Shifts.


def _shift(shift: Any) -> Expr:
    value, amount = shift.a, shift.b
    if not _depends_on_data(amount):
        return shift
    dtype = _dtype(value)
    zero, last = (tirx.IntImm(dtype, number) for number in (0, _bits(dtype) - 1))
    inside = tirx.And(amount >= zero, amount <= last)
    if isinstance(shift, tirx.RShift) and dtype.startswith("int"):
        return tirx.RShift(value, tirx.Select(inside, amount, last))
    shifted = type(shift)(value, tirx.Select(inside, amount, zero))
    return tirx.Select(inside, shifted, zero)


# Floats as integers.

Limited = Callable[[Expr, str], Expr]
"""A float as an integer of int32, int64 or uint64."""


def _with_casts(statement: Any, limited: Limited) -> Any:
    def cast(cast: Any) -> Expr:
        value, dtype = cast.value, _dtype(cast)
        if not _is_integer(cast) or "float" not in _dtype(value) or not _depends_on_data(value):
            return cast
        if _dtype(value) not in ("float32", "float64"):
            value = tirx.Cast("float32", value)
        wide = {"int64": "int64", "uint32": "int64", "uint64": "uint64"}.get(dtype, "int32")
        result = named(value, lambda known: limited(known, wide))
        return result if dtype == wide else tirx.Cast(dtype, result)

    return tvm_ffi.structural_map(statement, (tirx.Cast, cast))


def _saturated(value: Expr, dtype: str) -> Expr:
    if dtype != "uint64":
        return tirx.call_llvm_pure_intrin(dtype, "llvm.fptosi.sat", value)
    negative = tirx.Cast(dtype, _saturated(value, "int64"))
    rest = tirx.call_llvm_pure_intrin(dtype, "llvm.fptoui.sat", value)
    return tirx.Select(value < _float(value, 0), negative, rest)


def _compared(value: Expr, dtype: str) -> Expr:
    """All comparisons with NaN are false."""
    if dtype == "uint64":
        low, high = tirx.Cast(dtype, _compared(value, "int64")), tirx.Cast(dtype, value)
        inside = tirx.Select(value >= _float(value, 2**63), high, low)
        return tirx.Select(value >= _float(value, 2**64), tirx.max_value(dtype), inside)
    end = 2 ** (_bits(dtype) - 1)
    below = tirx.Select(value < _float(value, -end), tirx.min_value(dtype), tirx.IntImm(dtype, 0))
    inside = tirx.Select(value >= _float(value, -end), tirx.Cast(dtype, value), below)
    return tirx.Select(value >= _float(value, end), tirx.max_value(dtype), inside)


def _float(value: Expr, number: int) -> Expr:
    return tirx.FloatImm(_dtype(value), float(number))
