"""
Compute quotients of a tensor and one scale by products, as exactly as by divisions.

A division of a vector takes longer than all that replaces it here. With the reciprocal r of the
scale s, `x r` is off by a few units in the last place. What is left of x, `x - x r s`, is exact if
it is computed by one fused multiplication and addition, and corrects the quotient (P. Markstein:
*Computation of elementary functions on the IBM RISC System/6000 processor*, IBM Journal of Research
and Development 34, 1990). So a quotient differs from that by a division only if the true one is
within some 2^-22 units of the middle between two floats.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, TensorLoad

from collage_dsl.backends.schedule.expressions import Expr, constant
from collage_dsl.backends.schedule.ieee import named

SMALL = 2.0**-64  # a scale below is made larger by LARGER, so that its reciprocal is finite
LARGER = 2.0**64
FINITE = 2.0**127  # what is left is less, unless a quotient or a scale is infinite, or NaN


def with_products(value: Expr) -> Expr:
    """`value` with products for the quotient in each `round(x / s)` whose `s` no loop changes."""
    return tvm_ffi.structural_map(value, (Call, _of_product))


def _of_product(call: Any) -> Expr:
    if getattr(call.op, "name", "") != "tirx.round" or not isinstance(call.args[0], tirx.Div):
        return call
    x, scale = call.args[0].a, call.args[0].b
    if str(call.ty.dtype) != "float32" or not _is_one(scale):
        return call
    factor = tirx.Select(tirx.abs(scale) < _f(SMALL), _f(LARGER), _f(1.0))
    divisor = scale * factor
    reciprocal = _f(1.0) / divisor

    def corrected(x: Expr) -> Expr:
        def from_first(first: Expr) -> Expr:
            def from_rest(rest: Expr) -> Expr:
                whole = _fused(rest, reciprocal, first)
                return tirx.Select(tirx.abs(rest) < _f(FINITE), whole, first)

            return named(_fused(first, _f(0.0) - divisor, x), from_rest)

        return named(x * reciprocal, from_first)

    return tirx.round(named(x * factor, corrected))


def _is_one(scale: Expr) -> bool:
    """Whether a scale is an element of a tensor that no loop changes."""
    if not isinstance(scale, TensorLoad):
        return False
    return all(constant(index) is not None for index in scale.indices)


def _fused(a: Expr, b: Expr, c: Expr) -> Expr:
    """`a b + c`, rounded once."""
    return tirx.call_llvm_pure_intrin("float32", "llvm.fma", a, b, c)


def _f(value: float) -> Expr:
    return tirx.FloatImm("float32", value)
