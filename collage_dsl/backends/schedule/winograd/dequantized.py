"""
Write a convolution with filters of dequantized bytes as one with filters of floats, and its scale.

The numbers of the filters, whole ones, are floats when a model is loaded. Their scales do not
change along a sum, so the sum is multiplied with them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm import tirx
from tvm.ir import TensorLoad

from collage_dsl.backends.schedule.byte_products.form import factor_of
from collage_dsl.backends.schedule.byte_products.integers import scaled
from collage_dsl.backends.schedule.expressions import (
    Buffer,
    Expr,
    constant,
    replace_loads,
    variables,
)
from collage_dsl.backends.schedule.groups import Inlined
from collage_dsl.backends.schedule.images import is_axis
from collage_dsl.backends.schedule.loops import Stmt, load, nest, store
from collage_dsl.backends.schedule.rewriting import with_filters, with_stages
from collage_dsl.backends.schedule.stages import Program, Stage, shape


@dataclass(frozen=True, slots=True, eq=False)
class ByteFilters:
    """The parameter `weight`, bytes of which `zero` stands for 0, as the numbers in `floats`."""

    weight: Buffer
    zero: int
    floats: Buffer

    def copied(self) -> Stmt:
        """The floats, from the bytes."""

        def copy(at: list[Expr]) -> Stmt:
            whole = tirx.Cast("int32", load(self.weight, *at)) - self.zero
            return store(self.floats, tirx.Cast("float32", whole), *at)

        return nest(shape(self.weight), copy)


def byte_filters(weight: Buffer, zero: int) -> ByteFilters:
    floats = tirx.decl_buffer(weight.shape, "float32", f"{weight.name}_floats")
    return ByteFilters(weight, zero, floats)


def with_float_filters(program: Program, stage: Stage) -> tuple[Program, ByteFilters | None]:
    """`program` with filters of floats for `stage`; None, and no change, if they are no bytes."""
    factors = stage.factors()
    inlined = Inlined({each.buffer: each for each in program.stages if each.pointwise})
    found = scaled(inlined.expand(factors[1])) if factors else None
    weight = factor_of(found.integer) if found else None
    zero = constant(weight.zero) if weight else None
    if found is None or weight is None or zero is None:
        return program, None
    source = next((s for s in program.stages if _dequantizes(s, weight.value, inlined)), None)
    if source is None or variables(found.scale) & {axis.var for axis in stage.reduced}:
        return program, None
    filters = byte_filters(weight.value.source, zero)
    if filters.weight not in program.inputs:
        return program, None
    summed = tirx.decl_buffer(stage.buffer.shape, "float32", f"{stage.buffer.name}_sum")
    of_sum = replace(stage, buffer=summed, value=_read_of(summed, stage.buffer, stage.value))
    value = load(summed, *stage.indices) * found.scale
    result = Stage(stage.spatial, (), stage.buffer, stage.indices, None, value)
    made = with_stages(program, stage, (of_sum, result))
    stages = [
        replace(each, value=_read_of(filters.floats, source.buffer, each.value))
        for each in made.stages
    ]
    made = replace(made, stages=tuple(stages))
    return with_filters(made, filters.weight, filters.floats), filters


def _dequantizes(stage: Stage, weight: Expr, inlined: Inlined) -> bool:
    """Whether a stage dequantizes the bytes that `weight` reads, all in their places."""
    found = scaled(inlined.expand(stage.value)) if stage.pointwise else None
    factor = factor_of(found.integer) if found else None
    value = factor.value if factor else None
    return (
        isinstance(weight, TensorLoad)
        and isinstance(value, TensorLoad)
        and value.source.same_as(weight.source)
        and all(map(is_axis, value.indices, stage.spatial))
    )


def _read_of(buffer: Buffer, other: Buffer, value: Expr) -> Expr:
    """`value` with reads of `buffer` in place of those of the `other` one."""

    def read(access: TensorLoad) -> Expr:
        return load(buffer, *access.indices) if access.source.same_as(other) else access

    return replace_loads(value, read)
