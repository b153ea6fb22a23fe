"""Loops of any other reduction: vectors along the last output axis, accumulated in registers."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from collage_dsl.backends.schedule.context import Context, finish
from collage_dsl.backends.schedule.expressions import (
    Buffer,
    Expr,
    integer,
    replace_loads,
    substitute,
)
from collage_dsl.backends.schedule.functions import vectorisable
from collage_dsl.backends.schedule.groups import Group, wide
from collage_dsl.backends.schedule.loops import (
    Stmt,
    load,
    loop,
    nest,
    parallel,
    scoped,
    scratch,
    sequence,
    split_index,
    store,
    unrolled,
    vector,
)
from collage_dsl.backends.schedule.stages import Stage, extents

VECTORS = 8  # the most vectors accumulated at once


def reduction_statement(group: Group, context: Context) -> Stmt:
    """The anchor for as many neighbours as registers hold, each followed by its epilogue."""
    stage = group.stages[0]
    axes = wide(stage.spatial)
    outer, last = axes[:-1], axes[-1].extent if axes else 1
    lanes = context.machine.lanes
    vectors = _divisor(last // lanes) if last >= lanes else 1
    width = min(last, lanes)
    whole, rest = divmod(last, vectors * width)

    def task(number: Expr) -> Stmt:
        at = split_index(number, extents(outer))

        def chunk(start: Expr, count: int, lanes: int) -> Stmt:
            return _accumulated(group, context, at, start, (count, lanes))

        parts = [loop(whole, lambda c: chunk(c * (vectors * width), vectors, width))]
        if rest:
            parts.append(chunk(integer(last - rest), 1, rest))
        return sequence(parts)

    return parallel(prod(extents(outer)), context.machine.cores, task)


def _divisor(vectors: int) -> int:
    """The largest number of vectors, at most VECTORS, that divides the axis without a rest."""
    return next(count for count in range(min(VECTORS, vectors), 0, -1) if vectors % count == 0)


def _accumulated(
    group: Group, context: Context, at: list[Expr], start: Expr, size: tuple[int, int]
) -> Stmt:
    stage = group.stages[0]
    count, lanes = size
    held = scratch(count * lanes, stage.buffer.dtype, "held", "local")

    def each(body: Callable[[Expr], Stmt]) -> Stmt:
        return unrolled(count, lambda j: vector(lanes, lambda lane: body(j * lanes + lane)))

    def where(position: Expr) -> list[Expr]:
        return [*at, start + position] if wide(stage.spatial) else []

    def combine(reduced: list[Expr]) -> Stmt:
        def one(position: Expr) -> Stmt:
            value = _value(stage, context, where(position), reduced)
            return store(held, _over(value, stage.buffer, load(held, position)), position)

        return each(one)

    def done(position: Expr) -> Stmt:
        value = {stage.buffer: load(held, position)}
        return finish(context, group.epilogue, where(position), value)

    zero = each(lambda position: store(held, stage.init, position))
    body = nest(extents(stage.reduced), combine)
    return scoped([held], sequence([zero, body, each(done)]), "registers")


def _value(stage: Stage, context: Context, at: list[Expr], reduced: list[Expr]) -> Expr:
    """The value of a reduction at one index, with inlined buffers replaced by their values."""
    rest = iter(at)
    index = {axis.var: next(rest) if axis.extent > 1 else integer(0) for axis in stage.spatial}
    index |= {axis.var: r for axis, r in zip(stage.reduced, reduced, strict=True)}
    return vectorisable(substitute(context.inlined.expand(stage.value), index))


def _over(value: Expr, buffer: Buffer, held: Expr) -> Expr:
    """`value` with the sum so far, `held`, instead of reads of the buffer."""
    return replace_loads(value, lambda read: held if read.source.same_as(buffer) else read)
