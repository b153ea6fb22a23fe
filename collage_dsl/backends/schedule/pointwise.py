"""Loops of stages without reduction: one pass over memory, in vectors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvm import tirx

from collage_dsl.backends.schedule.context import Context, finish
from collage_dsl.backends.schedule.expressions import Expr, loads, replace_loads, variables
from collage_dsl.backends.schedule.groups import Group, in_order, wide
from collage_dsl.backends.schedule.loops import (
    Stmt,
    parallel_nest,
    split_index,
    vectorised,
)
from collage_dsl.backends.schedule.stages import Stage, extents


def pointwise_statement(group: Group, context: Context) -> Stmt:
    """The stages at each index. Trailing axes that are contiguous in memory become one axis."""
    axes = wide(group.stages[0].spatial)
    first = len(axes) - joined(group.stages)
    outer, inner = axes[:first], axes[first:]
    length = prod(extents(inner))
    pieces = _pieces(prod(extents(outer)), length, context.machine.cores)
    piece = length // pieces

    def task(place: list[Expr]) -> Stmt:
        *at, start = place

        def element(position: Expr) -> Stmt:
            index = start * piece + position if pieces > 1 else position
            return finish(context, group.stages, [*at, *split_index(index, extents(inner))], {})

        return vectorised(piece, context.machine.lanes, element)

    return parallel_nest((*extents(outer), pieces), context.machine.cores, task)


def _pieces(outer: int, inner: int, cores: int) -> int:
    """The number of equal parts of the inner axis that gives every core work."""
    if cores == 1 or outer >= 2 * cores or inner < 4096:
        return 1
    return next((parts for parts in (4 * cores, 2 * cores, cores) if inner % parts == 0), 1)


def joined(stages: Sequence[Stage]) -> int:
    """The number of trailing axes that are contiguous in every buffer read; at least one."""
    members = {stage.buffer for stage in stages}
    count = 0
    for count in range(1, len(wide(stages[0].spatial)) + 1):
        if not all(_joins(stage, count, members) for stage in stages):
            return max(1, count - 1)
    return min(count, len(wide(stages[0].spatial)))


def _joins(stage: Stage, count: int, members: set[object]) -> bool:
    axes = wide(stage.spatial)[-count:]
    zero = replace_loads(stage.value, lambda read: tirx.const(0, read.source.dtype))
    if variables(zero) & {axis.var for axis in axes}:
        return False
    reads = [read for read in loads(stage.value) if read.source not in members]
    return all(in_order(read, axes) for read in reads)
