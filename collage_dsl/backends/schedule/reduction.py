"""Loops of any other reduction: vectors along the last output axis, accumulated in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, TensorLoad

from collage_dsl.backends.schedule.context import Context, finish
from collage_dsl.backends.schedule.expressions import (
    IF_THEN_ELSE,
    Buffer,
    Expr,
    called,
    integer,
    loads,
    replace_loads,
    substitute,
    variables,
)
from collage_dsl.backends.schedule.functions import vectorisable
from collage_dsl.backends.schedule.groups import Group, wide
from collage_dsl.backends.schedule.loops import (
    Stmt,
    load,
    loop,
    nest,
    parallel_nest,
    scoped,
    scratch,
    sequence,
    store,
    unrolled,
    vector,
)
from collage_dsl.backends.schedule.sizes import is_known
from collage_dsl.backends.schedule.stages import Axis, Stage, extents

VECTORS = 8  # the most vectors accumulated at once


def reduction_statement(group: Group, context: Context) -> Stmt:
    """The anchor for as many neighbours as registers hold, each followed by its epilogue."""
    axes = wide(group.stages[0].spatial)
    last = axes[-1].extent if axes else 1
    if not is_known(last):
        return _of_any_length(group, context)
    lanes = context.machine.lanes
    vectors = _divisor(last // lanes) if last >= lanes else 1
    width = min(last, lanes)
    whole, rest = divmod(last, vectors * width)

    def task(at: list[Expr]) -> Stmt:
        def chunk(start: Expr, count: int, lanes: int) -> Stmt:
            return _Tile(group, context, at, start, count, lanes).statement()

        parts = [loop(whole, lambda c: chunk(c * (vectors * width), vectors, width))]
        if rest:
            parts.append(chunk(integer(last - rest), 1, rest))
        return sequence(parts)

    return parallel_nest(extents(axes[:-1]), context.machine.cores, task)


def _divisor(vectors: int) -> int:
    """The largest number of vectors, at most VECTORS, that divides the axis without a rest."""
    return next(count for count in range(min(VECTORS, vectors), 0, -1) if vectors % count == 0)


def _of_any_length(group: Group, context: Context) -> Stmt:
    """The same along an axis of unknown size, for several indices of another axis at a time."""
    *outer, last = wide(group.stages[0].spatial)
    place, rows = _shared_axis(group.stages[0], context, outer, last)
    counts = list(extents(outer))
    if rows > 1:
        counts[place] //= rows
    lanes = context.machine.lanes
    vectors = 2 if rows > 1 else 4
    width = vectors * lanes
    whole, rest = divmod(last.extent, width)
    more, end = divmod(rest, lanes)

    def task(at: list[Expr]) -> Stmt:
        if rows > 1:
            at[place] = at[place] * rows

        def chunk(start: Expr, count: int, used: int | None = None) -> Stmt:
            tile = _Tile(group, context, at, start, count, lanes, place, rows, used)
            return tile.statement()

        after = whole * width
        masked = chunk(integer(after + more * lanes), 1, end)
        return sequence(
            [
                loop(whole, lambda c: chunk(c * width, vectors)),
                loop(more, lambda c: chunk(c * lanes + after, 1)),
                tirx.IfThenElse(integer(end) > 0, masked, None),
            ]
        )

    return parallel_nest(counts, context.machine.cores, task)


def _shared_axis(
    stage: Stage, context: Context, outer: Sequence[Axis], last: Axis
) -> tuple[int, int]:
    """
    The place of an axis for whose indices the same vectors are read, and for how many of these at a
    time; 1 if there is no such axis.
    """
    reads = loads(context.inlined.expand(stage.value))
    own = [read for read in reads if not read.source.same_as(stage.buffer)]
    moving = [used for used in map(variables, own) if last.var in used]
    for place, axis in enumerate(outer):
        if not is_known(axis.extent) or any(axis.var in used for used in moving):
            continue
        rows = next(rows for rows in (8, 4, 2, 1) if axis.extent % rows == 0)
        if rows > 1:
            return place, rows
    return 0, 1


@dataclass(frozen=True, slots=True, eq=False)
class _Tile:
    """
    `vectors` of `lanes` elements from `start` on, at an index of the other axes; for `rows` indices
    of the axis number `place`, from that one on. Only the first `used` elements exist, if given.
    """

    group: Group
    context: Context
    at: Sequence[Expr]
    start: Expr
    vectors: int
    lanes: int
    place: int = 0
    rows: int = 1
    used: int | None = None

    def statement(self) -> Stmt:
        stage = self.group.stages[0]
        size = self.rows * self.vectors * self.lanes
        held = scratch(size, stage.buffer.dtype, "held", "local")

        def combine(reduced: list[Expr]) -> Stmt:
            def one(row: Expr, position: Expr) -> Stmt:
                place = self._held_at(row, position)
                value = self._value(row, position, reduced)
                return store(held, _over(value, stage.buffer, load(held, place)), place)

            return self._each(one)

        def done(row: Expr, position: Expr) -> Stmt:
            value = {stage.buffer: load(held, self._held_at(row, position))}
            return finish(self.context, self.group.epilogue, self._index(row, position), value)

        def begin(row: Expr, position: Expr) -> Stmt:
            return store(held, stage.init, self._held_at(row, position))

        body = nest(extents(stage.reduced), combine)
        return scoped([held], sequence([self._each(begin), body, self._stored(done)]), "registers")

    def _held_at(self, row: Expr, position: Expr) -> Expr:
        return row * (self.vectors * self.lanes) + position

    def _each(self, body: Callable[[Expr, Expr], Stmt]) -> Stmt:
        def one(row: Expr, j: Expr) -> Stmt:
            return vector(self.lanes, lambda lane: body(row, j * self.lanes + lane))

        return unrolled(self.rows, lambda row: unrolled(self.vectors, lambda j: one(row, j)))

    def _stored(self, body: Callable[[Expr, Expr], Stmt]) -> Stmt:
        if self.used is None:
            return self._each(body)
        count = self.used
        return unrolled(self.rows, lambda row: vector(count, lambda lane: body(row, lane)))

    def _index(self, row: Expr, position: Expr) -> list[Expr]:
        if not wide(self.group.stages[0].spatial):
            return []
        at = list(self.at)
        if self.rows > 1:
            at[self.place] = at[self.place] + row
        return [*at, self.start + position]

    def _value(self, row: Expr, position: Expr, reduced: list[Expr]) -> Expr:
        """The value of a reduction at one index, with inlined buffers replaced by their values."""
        stage = self.group.stages[0]
        rest = iter(self._index(row, position))
        where = {axis.var: next(rest) if axis.extent > 1 else integer(0) for axis in stage.spatial}
        where |= {axis.var: r for axis, r in zip(stage.reduced, reduced, strict=True)}
        value = substitute(self.context.inlined.expand(stage.value), where)
        if self.used is not None:
            value = _where(value, position < integer(self.used), variables(position), stage.buffer)
        return vectorisable(value)


def _where(value: Expr, exists: Expr, lanes: set[tirx.Var], own: Buffer) -> Expr:
    """`value`, which reads along `lanes` only what `exists`, and 0 in place of the rest."""

    def read(access: TensorLoad) -> Expr:
        if access.source.same_as(own) or not variables(access) & lanes:
            return access
        return tirx.if_then_else(exists, access, tirx.const(0, access.source.dtype))

    def joined(call: Call) -> Expr:
        if not called(call, IF_THEN_ELSE):
            return call
        condition, chosen, other = call.args
        if not called(chosen, IF_THEN_ELSE) or not exists.same_as(chosen.args[0]):
            return call
        return tirx.if_then_else(tirx.And(condition, exists), chosen.args[1], other)

    return tvm_ffi.structural_map(value, ((TensorLoad, read), (Call, joined)))


def _over(value: Expr, buffer: Buffer, held: Expr) -> Expr:
    """`value` with the sum so far, `held`, instead of reads of the buffer."""
    return replace_loads(value, lambda read: held if read.source.same_as(buffer) else read)
