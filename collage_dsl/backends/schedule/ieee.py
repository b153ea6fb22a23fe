"""
Write the arithmetic of a scheduled function so that TVM compiles it with the rules of IEEE 754.

TVM simplifies float expressions as if they were of real numbers, and its maximum loses NaN.
"""

import math
from collections.abc import Callable
from typing import Any

import tvm_ffi
from tvm import tirx

from collage_dsl.backends.schedule.expressions import Expr, has_bfloat16, loads
from collage_dsl.backends.schedule.groups import is_cheap


def with_ieee_values(function: Any, *, extrema: bool = True) -> Any:
    """
    `function` whose values are right where NaN, infinities or rounding tell floats from reals.

        max(x, 0)       ->  max(0, x)
        max(a, b)       ->  b <= inf ? max(b, a) : b
        x - x, x == x   ->  one side is hidden from the simplifier, which has no NaN
        not (a < b)     ->  int(a < b) == 0, which is not a >= b
        a != b          ->  int(a == b) == 0, since TVM takes NaN to differ from no number

    TVM compiles `max(a, b)` to `a > b ? a : b`, which is `b` if one of them is NaN. So a constant
    comes first, which costs nothing. Else `b` is tested: in reductions, `a` is the maximum so far.
    Without `extrema`, maxima and minima stay as they are.
    """
    return tvm_ffi.structural_map(
        function,
        (
            *([((tirx.Max, tirx.Min), _extremum)] if extrema else []),
            (tirx.Sub, _difference),
            (tirx.EQ, _equality),
            (tirx.NE, _inequality),
            ((tirx.LE, tirx.GE), _order),
            (tirx.Not, _negation),
        ),
    )


def _extremum(node: Any) -> Expr:
    if not _is_float(node):
        return node
    a, b, combine = node.a, node.b, type(node)
    if _is_number(a):
        return node
    if _is_number(b):
        return combine(b, a)
    infinity = tirx.FloatImm(node.ty.dtype, math.inf)
    return named(b, lambda b: tirx.Select(b <= infinity, combine(b, a), b))


def _is_number(value: Expr) -> bool:
    if isinstance(value, tirx.Broadcast):
        value = value.value
    return isinstance(value, tirx.FloatImm) and not math.isnan(value.value)


def named(value: Expr, body: Callable[[Expr], Expr]) -> Expr:
    """
    `body(value)`, with a name for the value, unless it has bfloat16 (see `has_bfloat16`).

    A cheap value is written out: LLVM computes it once all the same, and TVM 0.27 may use a name
    for a common part of several before it has a value.
    """
    if is_cheap(value) or has_bfloat16(value):
        return body(value)
    variable = tirx.Var("t", value.ty.dtype)
    return tirx.Let(variable, value, body(variable))


def _difference(node: Any) -> Expr:
    """`a - b`, hidden if a term of `a` would cancel one of `b`."""
    if not _is_float(node):
        return node
    return tirx.Sub(node.a, hidden(node.b)) if _may_cancel(node.a, node.b) else node


def _may_cancel(one: Expr, other: Expr) -> bool:
    """
    Whether terms are the same, or may be once they are simplified: both read the same buffer.
    """
    read = {load.source for load in loads(one)}
    if any(load.source in read for load in loads(other)):
        return True
    return any(tvm_ffi.structural_equal(a, b) for a in _terms(one) for b in _terms(other))


def _terms(value: Expr) -> list[Expr]:
    if isinstance(value, tirx.Add | tirx.Sub):
        return [*_terms(value.a), *_terms(value.b)]
    return [value]


def _equality(node: Any) -> Expr:
    if not _is_float(node.a) or not _may_cancel(node.a, node.b):
        return node
    return tirx.EQ(node.a, hidden(node.b))


def _inequality(node: Any) -> Expr:
    return _opposite(_equality(tirx.EQ(node.a, node.b))) if _is_float(node.a) else node


def _order(node: Any) -> Expr:
    """`a <= b`, which TVM otherwise takes to hold where `b < a` does not."""
    return type(node)(hidden(node.a), hidden(node.b)) if _is_float(node.a) else node


def _negation(node: Any) -> Expr:
    found: list[Any] = []
    comparisons = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ)
    tvm_ffi.structural_walk(node.a, (comparisons, found.append))
    return _opposite(node.a) if any(_is_float(each.a) for each in found) else node


def _opposite(condition: Expr) -> Expr:
    number = tirx.Cast("int8", condition)
    return tirx.EQ(number, tirx.const(0, number.ty.dtype))


def hidden(value: Expr) -> Expr:
    """
    `value`, of which the simplifier knows nothing. It is read as an integer and back, which takes
    no instruction.
    """
    dtype = str(value.ty.dtype)
    if dtype == "bfloat16":  # TVM 0.27 replaces it by float32, which has other bits
        return tirx.Cast(dtype, hidden(tirx.Cast("float32", value)))
    bits = dtype.replace("float", "int")
    return tirx.reinterpret(dtype, tirx.reinterpret(bits, value))


def _is_float(value: Expr) -> bool:
    element, _, _ = str(value.ty.dtype).partition("x")
    return element in ("float64", "float32", "float16", "bfloat16")
