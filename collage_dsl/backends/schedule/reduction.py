"""Loops of any other reduction: vectors along the last output axis, accumulated in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, TensorLoad

from collage_dsl.backends.schedule.context import Context, finish
from collage_dsl.backends.schedule.edges import without_choices
from collage_dsl.backends.schedule.expressions import (
    IF_THEN_ELSE,
    Buffer,
    Expr,
    called,
    choices,
    equal,
    integer,
    loads,
    replace_loads,
    substitute,
    variables,
)
from collage_dsl.backends.schedule.functions import vectorisable
from collage_dsl.backends.schedule.groups import Group, in_order, wide
from collage_dsl.backends.schedule.loops import (
    Stmt,
    load,
    loop,
    nest,
    parallel_nest,
    scoped,
    scratch,
    sequence,
    split_index,
    store,
    vector,
)
from collage_dsl.backends.schedule.machine import Machine
from collage_dsl.backends.schedule.sizes import is_known
from collage_dsl.backends.schedule.stages import Axis, Stage, extents, shape

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
    """
    The same along an axis of unknown size, for several indices of another axis at a time. Several
    axes that lie in memory one after the other are one.
    """
    axes = wide(group.stages[0].spatial)
    inner = axes[len(axes) - _joined(group, context) :]
    outer, length = axes[: -len(inner)], prod(extents(inner))
    place, rows = _shared_axis(group.stages[0], context, outer, inner)
    counts = [size // rows if axis == place else size for axis, size in enumerate(extents(outer))]
    machine = context.machine
    has_masks = bool(choices(context.inlined.expand(group.stages[0].value)))
    lanes, vectors = machine.lanes, 4 if rows == 1 else _vectors_of_rows(machine, has_masks)
    width = vectors * lanes
    whole, rest = divmod(length, width)
    more, end = divmod(rest, lanes)

    def task(index: list[Expr]) -> Stmt:
        at = [part * rows if axis == place else part for axis, part in enumerate(index)]

        def chunk(start: Expr, count: int, used: int | None = None) -> Stmt:
            tile = _Tile(group, context, at, start, count, lanes)
            whole = replace(tile, inner=extents(inner), place=place, rows=rows, used=used)
            most = max(1, (machine.registers - 1) // count - 1 - has_masks)

            def summed(tile: _Tile) -> Stmt:
                return sequence([each.statement() for each in tile.in_parts(most)])

            inside = whole.inside() if used is None else None
            if inside is None:
                return summed(whole)
            condition, without = inside
            if count == 1:
                return tirx.IfThenElse(condition, summed(without), summed(whole))
            apart = loop(count, lambda v: chunk(start + v * lanes, 1))
            return tirx.IfThenElse(condition, summed(without), apart)

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


def _vectors_of_rows(machine: Machine, has_masks: bool) -> int:
    """
    The vectors of a row that are summed at once, where several rows are. Masks need registers too.
    """
    if not machine.has_few_registers:
        return 2
    return (2 if has_masks else 3) if machine.fuses else 1


def _joined(group: Group, context: Context) -> int:
    """How many of the last axes are contiguous in all that is read; at least one."""
    members = {stage.buffer for stage in group.stages}
    values = [context.inlined.expand(stage.value) for stage in group.stages]
    count = len(wide(group.stages[0].spatial))

    def joins(count: int) -> bool:
        for stage, value in zip(group.stages, values, strict=True):
            axes = wide(stage.spatial)[-count:]
            if _used_by_itself(value) & {axis.var for axis in axes}:
                return False
            reads = (read for read in loads(value) if read.source not in members)
            if not all(in_order(read, axes) for read in reads):
                return False
        return True

    return next((n for n in range(count, 1, -1) if joins(n)), 1)


def _used_by_itself(value: Expr) -> set[tirx.Var]:
    """The variables of a value that it has not only where it reads."""
    return variables(replace_loads(value, lambda read: tirx.const(0, read.source.dtype)))


def _shared_axis(
    stage: Stage, context: Context, outer: Sequence[Axis], inner: Sequence[Axis]
) -> tuple[int, int]:
    """
    The place of an axis for whose indices the same vectors are read, and for how many of these at a
    time; 0 and 1 if there is no such axis.
    """
    reads = loads(context.inlined.expand(stage.value))
    own = [read for read in reads if not read.source.same_as(stage.buffer)]
    lanes = {axis.var for axis in inner}
    moving = [used for used in map(variables, own) if used & lanes]
    shared = {
        place: next(rows for rows in (8, 4, 2, 1) if axis.extent % rows == 0)
        for place, axis in enumerate(outer)
        if is_known(axis.extent) and not any(axis.var in used for used in moving)
    }
    place = max(shared, key=lambda place: shared[place], default=0)
    rows = shared.get(place, 1)
    return (place, rows) if rows > 1 else (0, 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Tile:
    """
    `vectors` of `lanes` elements from `start` on, at an index of the other axes; for `rows` indices
    of the axis number `place`, from that one on. The elements are those of several axes with the
    extents `inner`, if given. Only the first `used` of them exist, if given. The tile sums `value`
    if given, or else what the stage does.
    """

    group: Group
    context: Context
    at: Sequence[Expr]
    start: Expr
    vectors: int
    lanes: int
    inner: Sequence[int] = ()
    place: int = 0
    rows: int = 1
    used: int | None = None
    value: Expr | None = None

    def inside(self) -> tuple[Expr, _Tile] | None:
        """Where the whole tile reads nothing beyond an edge, and the tile that asks for none."""
        stage = self.group.stages[0]
        first = self._index(integer(0), integer(0))
        last = self._index(integer(self.rows - 1), integer(self.vectors * self.lanes - 1))
        axes = [axis for axis in stage.spatial if axis.extent > 1]
        pairs = list(zip(axes, zip(first, last, strict=True), strict=True))
        fixed = {axis.var: low for axis, (low, high) in pairs if equal(low, high)}
        ranges = {axis.var: ends for axis, ends in pairs if axis.var not in fixed}
        for axis in stage.reduced:
            ranges[axis.var] = integer(0), integer(axis.extent) - 1
        found = without_choices(substitute(self._summed, fixed), ranges)
        if found is None:
            return None
        condition, value = found
        return condition, replace(self, value=value)

    @property
    def _summed(self) -> Expr:
        """What is summed, with inlined buffers replaced by their values."""
        if self.value is not None:
            return self.value
        return self.context.inlined.expand(self.group.stages[0].value)

    def in_parts(self, most: int) -> list[_Tile]:
        """The tile in such of equally many rows, at most so many."""
        rows = next(rows for rows in range(min(most, self.rows), 0, -1) if self.rows % rows == 0)
        return [
            replace(self, at=self._from_row(row), rows=rows) for row in range(0, self.rows, rows)
        ]

    def _from_row(self, row: int) -> list[Expr]:
        at = list(self.at)
        if row:
            at[self.place] = at[self.place] + row
        return at

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
            return finish(self.context, self.group.epilogue, self._written(row, position), value)

        def begin(row: Expr, position: Expr) -> Stmt:
            return store(held, stage.init, self._held_at(row, position))

        body = nest(extents(self._order), lambda at: combine(self._in_order(at)))
        parts = [self._each(begin), body, self._stored(done)]
        return scoped([held], sequence(parts), "registers")

    @property
    def _order(self) -> tuple[Axis, ...]:
        """
        The reduced axes, those first that conditions use: what the others do not change is then
        decided once, outside of their loops.
        """
        stage = self.group.stages[0]
        found = choices(self._summed)
        used = {variable for choice in found for variable in variables(choice.args[0])}
        return tuple(sorted(stage.reduced, key=lambda axis: axis.var not in used))

    def _in_order(self, at: list[Expr]) -> list[Expr]:
        places = {axis.var: index for axis, index in zip(self._order, at, strict=True)}
        return [places[axis.var] for axis in self.group.stages[0].reduced]

    def _held_at(self, row: Expr, position: Expr) -> Expr:
        return row * (self.vectors * self.lanes) + position

    def _each(self, body: Callable[[Expr, Expr], Stmt]) -> Stmt:
        """`body` for each vector of each row, written out, so that each has its own register."""

        def one(row: int, start: int) -> Stmt:
            return vector(self.lanes, lambda lane: body(integer(row), lane + start))

        starts = range(0, self.vectors * self.lanes, self.lanes)
        return sequence([one(row, start) for row in range(self.rows) for start in starts])

    def _stored(self, body: Callable[[Expr, Expr], Stmt]) -> Stmt:
        if self.used is None:
            return self._each(body)
        count = self.used

        def one(row: int) -> Stmt:
            return vector(count, lambda lane: body(integer(row), lane))

        return sequence(list(map(one, range(self.rows))))

    def _index(self, row: Expr, position: Expr) -> list[Expr]:
        if not wide(self.group.stages[0].spatial):
            return []
        at = list(self.at)
        if self.rows > 1:
            at[self.place] = at[self.place] + row
        return [*at, *split_index(self.start + position, self.inner or (1,))]

    def _written(self, row: Expr, position: Expr) -> list[Expr]:
        """Where the result is written, without dimensions of extent one."""
        stage = self.group.stages[0]
        pairs = zip(stage.indices, shape(stage.buffer), strict=True)
        where = self._places(row, position)
        return [substitute(index, where) for index, extent in pairs if extent > 1]

    def _places(self, row: Expr, position: Expr) -> dict[tirx.Var, Expr]:
        """The index of each spatial axis."""
        rest = iter(self._index(row, position))
        axes = self.group.stages[0].spatial
        return {axis.var: next(rest) if axis.extent > 1 else integer(0) for axis in axes}

    def _value(self, row: Expr, position: Expr, reduced: list[Expr]) -> Expr:
        """The value of a reduction at one index."""
        stage = self.group.stages[0]
        where = self._places(row, position)
        where |= {axis.var: r for axis, r in zip(stage.reduced, reduced, strict=True)}
        value = substitute(self._summed, where)
        if self.used is not None:
            exists = position < integer(self.used)
            value = where_exists(value, exists, variables(position), stage.buffer)
        return vectorisable(value)


def where_exists(value: Expr, exists: Expr, lanes: set[tirx.Var], own: Buffer) -> Expr:
    """
    `value`, which reads along `lanes` only what `exists`, and 0 in place of the rest. It reads the
    whole of `own`.
    """

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
