"""
Compute products of dequantized numbers as products of integers.

A dequantized number is a scale times a whole number. The scales do not change along the sum, so the
product is the product of the scales times a sum of whole numbers, which is exact. Whole numbers
that are padded with zeros are bytes that are padded with their zero point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from tvm import tirx

from collage_dsl.backends.schedule.byte_products.form import factor_of, is_byte
from collage_dsl.backends.schedule.expressions import (
    IF_THEN_ELSE,
    Expr,
    called,
    variables,
)
from collage_dsl.backends.schedule.groups import Inlined
from collage_dsl.backends.schedule.loops import load
from collage_dsl.backends.schedule.stages import Program, Stage, extents, without_unused

MOST_TERMS = 2**31 // 255**2
"""The longest sum of products of two bytes without their zero points that int32 holds."""


def with_integer_sums(program: Program) -> Program:
    """
    `program` with two stages for each product of dequantized bytes, a sum and its scale, and with
    the padding of bytes before their zero points are taken off.
    """
    inlined = Inlined({stage.buffer: stage for stage in program.stages if stage.pointwise})
    found = [each for stage in program.stages for each in _split(stage, inlined)]
    if all(each in program.stages for each in found):
        return program
    known = {*program.parameters, *program.locals}
    made = [stage.buffer for stage in found if stage.buffer not in known]
    whole = replace(program, locals=(*program.locals, *made), stages=tuple(found))
    return without_unused(whole)


def _split(stage: Stage, inlined: Inlined) -> Sequence[Stage]:
    factors, dtype = stage.factors(), str(stage.buffer.dtype)
    if factors is not None and dtype == "int32":
        return _of_bytes(stage, factors, inlined)
    is_short = prod(extents(stage.reduced)) <= MOST_TERMS
    if factors is None or dtype != "float32" or not is_short:
        return [stage]
    one, other = (scaled(inlined.expand(factor)) for factor in factors)
    if one is None:
        one = _padded(factors[0], inlined)
    summed = {axis.var for axis in stage.reduced}
    if one is None or other is None:
        return [stage]
    if (variables(one.scale) | variables(other.scale)) & summed:
        return [stage]
    buffer = tirx.decl_buffer(stage.buffer.shape, "int32", f"{stage.buffer.name}_sum")
    held, zero = load(buffer, *stage.indices), tirx.IntImm("int32", 0)
    value = tirx.Cast("float32", held) * (one.scale * other.scale)
    return [
        *one.stages,
        replace(stage, buffer=buffer, init=zero, value=held + one.integer * other.integer),
        Stage(stage.spatial, (), stage.buffer, stage.indices, None, value),
    ]


def _of_bytes(stage: Stage, factors: tuple[Expr, Expr], inlined: Inlined) -> Sequence[Stage]:
    """A sum of whole numbers, of which the first reads its bytes itself, padded or not."""
    one = inlined.expand(factors[0])
    first = Scaled(one, _ONE) if _is_whole(one) else _padded(factors[0], inlined)
    if first is None:
        return [stage]
    held = load(stage.buffer, *stage.indices)
    return [*first.stages, replace(stage, value=held + first.integer * factors[1])]


@dataclass(frozen=True, slots=True, eq=False)
class Scaled:
    """
    A float: `integer`, a byte without its zero point, times `scale`. The integer reads what
    `stages` compute.
    """

    integer: Expr
    scale: Expr
    stages: tuple[Stage, ...] = ()


def scaled(value: Expr) -> Scaled | None:
    """A dequantized byte; None for another value."""
    if not isinstance(value, tirx.Mul) or not isinstance(value.a, tirx.Cast):
        return None
    return Scaled(value.a.value, value.b) if _is_whole(value.a.value) else None


def _is_whole(value: Expr) -> bool:
    """Whether an int32 is a byte without its zero point."""
    found = factor_of(value)
    return found is not None and (isinstance(found.zero, tirx.IntImm) or is_byte(found.zero))


def _padded(factor: Expr, inlined: Inlined) -> Scaled | None:
    """
    Bytes without their zero point, dequantized or not, that are padded with zeros, as bytes that
    are padded with their zero point.
    """
    stage = inlined.stages.get(getattr(factor, "source", None))
    if stage is None:
        return None
    value = inlined.expand(stage.value)
    if not called(value, IF_THEN_ELSE) or not _is_zero(value.args[2]):
        return None
    inside = scaled(value.args[1])
    if inside is None and _is_whole(value.args[1]):
        inside = Scaled(value.args[1], _ONE)
    found = None if inside is None else factor_of(inside.integer)
    axes = {axis.var for axis in stage.spatial}
    if inside is None or found is None or (variables(inside.scale) | variables(found.zero)) & axes:
        return None
    dtype = str(found.value.ty.dtype)
    bytes_ = tirx.decl_buffer(stage.buffer.shape, dtype, f"{stage.buffer.name}_bytes")
    padded = tirx.if_then_else(value.args[0], found.value, tirx.Cast(dtype, found.zero))
    integer = tirx.Cast("int32", load(bytes_, *factor.indices)) - found.zero
    return Scaled(integer, inside.scale, (replace(stage, buffer=bytes_, value=padded),))


_ONE = tirx.IntImm("int32", 1)


def _is_zero(value: Expr) -> bool:
    return isinstance(value, tirx.FloatImm | tirx.IntImm) and value.value == 0
