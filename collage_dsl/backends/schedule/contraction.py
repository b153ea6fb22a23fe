"""Loops of a sliding reduction: pack a tile, sum in registers, finish while it is in the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from tvm import tirx

from collage_dsl.backends.schedule.context import Context, finish
from collage_dsl.backends.schedule.expressions import Buffer, Expr, integer, substitute
from collage_dsl.backends.schedule.groups import Group, is_cheap
from collage_dsl.backends.schedule.loops import (
    Stmt,
    in_blocks,
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
    vectorised,
)
from collage_dsl.backends.schedule.machine import Machine
from collage_dsl.backends.schedule.packing import Packed, Source, source_of
from collage_dsl.backends.schedule.pointwise import joined
from collage_dsl.backends.schedule.sliding import Sliding, row_stride, written_at
from collage_dsl.backends.schedule.stages import extents
from collage_dsl.backends.schedule.tiling import (
    RegisterTile,
    most_rows,
    packed_tile,
    register_tile,
)

UNROLLED_PRODUCTS = 160  # the most multiplications in the unrolled body of the innermost loop


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """The place of a tile: the batch indices, its first channel, and its first row and column."""

    where: dict[tirx.Var, Expr]
    channel: Expr
    y: Expr
    x: Expr

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """What a tile keeps besides its operand and its sums."""
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """The buffer for the sums of some rows of a tile, and whether to add to its values."""

    buffer: Buffer
    start: Expr
    resumed: bool


class SlidingKernel:
    """The loops of one group whose anchor is a sliding reduction."""

    dtype = "float32"  # of the packed operand and of the sums
    cut = True  # whether a tile may be summed over a part of the channels at a time

    def __init__(self, form: Sliding, group: Group, context: Context) -> None:
        machine = context.machine
        self.form, self.group, self.context = form, group, context
        self.rows = prod(extents(form.rows))
        self.height = form.y.axis.extent if form.y else 1
        self.channels, stride = self._steps()
        width = form.x.axis.extent
        whole = Packed(form.y, form.x, self.channels, self.height, width, machine.lanes)
        self.most = most_rows(stride)
        self.taps = prod(extents(form.taps))
        self.tile = packed_tile(whole, self.rows, self._tile_and_cycles, cut=self.cut)

    def _steps(self) -> tuple[int, int]:
        """The packed channels, and the distance of the rows of the still operand in memory."""
        return prod(extents(self.form.channels)), row_stride(self.form)

    def _tile_and_cycles(self, tile: Packed) -> tuple[RegisterTile, float]:
        """The register tile with which a packed tile takes the fewest cycles, and these."""
        steps, sliding = tile.channels * self.taps, self.form.y is not None
        return register_tile(self.rows, tile.vectors, steps, sliding, self.most, self._machine)

    @property
    def _machine(self) -> Machine:
        """The machine whose registers hold the sums."""
        return self.context.machine

    def _room(self, rows: int) -> int:
        """The rows of sums that are written where `rows` are asked for."""
        return rows

    def statement(self) -> Stmt:
        """The whole computation, over all batch indices and tiles."""
        parts = []
        width = self.form.x.axis.extent
        full, rest = divmod(width, self.tile.width)
        if full:
            parts.append(self._tiles(self.tile, full, 0))
        if rest:
            parts.append(self._tiles(replace(self.tile, width=rest), 1, width - rest))
        return sequence(parts)

    def _tiles(self, tile: Packed, columns: int, start: int) -> Stmt:
        """`columns` tiles side by side from column `start`, over the whole height and batch."""
        batch = extents(self.form.batch)
        counts = (*batch, -(-self.height // tile.height), columns)
        shared = prod(counts)
        by_rows = shared < 2 * self.context.machine.cores and shared % self.context.machine.cores
        cores = 1 if by_rows else self.context.machine.cores

        def task(number: Expr) -> Stmt:
            *at, row, column = split_index(number, counts)
            y, x = row * tile.height, column * tile.width + start
            if columns == 1:
                x = integer(start)
            inner = self.context.machine.cores if by_rows else 1
            return self._tile(tile, at, (y, x), inner)

        return parallel(shared, cores, task)

    def _tile(self, tile: Packed, batch: list[Expr], corner: tuple[Expr, Expr], cores: int) -> Stmt:
        """
        Compute one tile: pack one part of the channels after another and sum all rows over it,
        then store the results.

        If all channels are packed at once, each chunk of rows is finished as soon as it is summed.
        """
        form = self.form
        where = {axis.var: at for axis, at in zip(form.batch, batch, strict=True)}
        where |= {axis.var: integer(0) for axis in form.stage.spatial if axis.extent == 1}
        packed = scratch(tile.size, self.dtype, "packed")
        parts = self.channels // tile.channels
        kept = self.rows if parts > 1 else 0
        sums = scratch(max(1, kept) * tile.vectors * tile.lanes, self.dtype, "all_sums")

        def part(number: Expr) -> Stmt:
            first = number * tile.channels
            fill = self._fill(tile, packed, where, first, corner)
            at = replace(place, channel=first)
            rows = self._row_chunks(tile, packed, at, cores, sums if kept else None)
            return sequence([fill, *self._before_rows(tile, packed, at), rows])

        place = self._place(tile, where, corner)
        if not kept:
            return scoped([packed, *place.buffers], part(integer(0)))
        zero = vectorised(
            kept * tile.vectors * tile.lanes, tile.lanes, lambda e: store(sums, form.stage.init, e)
        )
        done = self._finish(tile, sums, place, integer(0), kept)
        return scoped([packed, sums], sequence([zero, loop(parts, part, name="part"), done]))

    def _place(self, tile: Packed, where: dict[tirx.Var, Expr], corner: Sequence[Expr]) -> Place:
        return Place(where, integer(0), *corner)

    def _before_rows(self, tile: Packed, packed: Buffer, at: Place) -> list[Stmt]:
        """What is computed from a packed tile before the rows."""
        return []

    def _fill(
        self,
        tile: Packed,
        packed: Buffer,
        where: dict[tirx.Var, Expr],
        first: Expr,
        corner: tuple[Expr, Expr],
    ) -> Stmt:
        def operand(channel: Expr) -> list[Expr]:
            at = where | self._channel(first + channel)
            return [substitute(index, at) for index in self.form.moving.indices]

        return tile.fill(packed, self._source(), operand, *corner)

    def _channel(self, number: Expr) -> dict[tirx.Var, Expr]:
        """The index of each axis of the channels, for a packed one."""
        channels = self.form.channels
        parts = split_index(number, extents(channels))
        return {axis.var: part for axis, part in zip(channels, parts, strict=True)}

    def _source(self) -> Source:
        form = self.form
        slid = [window.dimension for window in (form.y, form.x) if window]
        return source_of(form.moving.source, self.context.inlined, slid)

    def _row_chunks(
        self, tile: Packed, packed: Buffer, at: Place, cores: int, kept: Buffer | None
    ) -> Stmt:
        """Sum the rows in chunks, into `kept`; without it, finish each chunk here."""
        size, _ = self._tile_and_cycles(tile)
        full, rest = divmod(self.rows, size.rows)

        def chunk(first: Expr, count: int) -> Stmt:
            shape = RegisterTile(count, size.vectors)
            if kept is None and self._in_order(tile):
                return self._columns(tile, packed, None, at, first, shape)
            if kept is not None:
                sums = Sums(kept, first * (tile.vectors * tile.lanes), resumed=True)
                return self._columns(tile, packed, sums, at, first, shape)
            room = self._room(count) * tile.vectors * tile.lanes
            buffer = scratch(room, self.dtype, "sums")
            sums = Sums(buffer, integer(0), resumed=False)
            compute = self._columns(tile, packed, sums, at, first, shape)
            done = self._finish(tile, buffer, at, first, count)
            return scoped([buffer], sequence([compute, done]), "rows")

        parts = []
        if full:
            parts.append(parallel(full, cores, lambda c: chunk(c * size.rows, size.rows)))
        if rest:
            parts.append(chunk(integer(full * size.rows), rest))
        return sequence(parts)

    def _columns(
        self,
        tile: Packed,
        packed: Buffer,
        sums: Sums | None,
        at: Place,
        first: Expr,
        size: RegisterTile,
    ) -> Stmt:
        """Sum the vectors of a tile for some rows, as many at once as registers hold."""

        def chunk(start: Expr, vectors: int, last: bool) -> Stmt:
            shape = RegisterTile(size.rows, vectors)
            return self._registers(tile, packed, sums, at, (first, start), shape, last)

        return in_blocks(tile.vectors, size.vectors, chunk)

    def _in_order(self, tile: Packed) -> bool:
        """
        Whether the vectors of a tile follow each other in the result, and what is computed from
        the sums is cheap. Then it is computed while they are in registers.
        """
        return self._is_joined(tile) and all(is_cheap(s.value) for s in self.group.epilogue)

    def _is_joined(self, tile: Packed) -> bool:
        """Whether the elements of a tile follow each other, in its sums and in the result."""
        form, epilogue = self.form, self.group.epilogue
        if form.x.reach:
            return False
        if form.y is None or form.y.axis.extent == 1:
            return True
        if self.height % tile.height or tile.width < form.x.axis.extent:
            return False
        *_, y, x = form.stage.indices
        plane = form.y.axis.var.same_as(y) and form.x.axis.var.same_as(x)
        return plane and (not epilogue or joined(epilogue) > 1)

    def _registers(
        self,
        tile: Packed,
        packed: Buffer,
        sums: Sums | None,
        place: Place,
        corner: tuple[Expr, Expr],
        size: RegisterTile,
        last: bool,
    ) -> Stmt:
        """
        Accumulate `size.rows` by `size.vectors` vectors in registers over all reduced axes, and
        store them in `sums`, or without these their results.
        """
        form, lanes = self.form, tile.lanes
        first, start = corner
        held = scratch(size.rows * size.vectors * lanes, self.dtype, "held", "local")

        def element(i: Expr, j: Expr, lane: Expr) -> Expr:
            return size.place(i, j, lanes) + lane

        def each(body: Callable[[Expr, Expr, Expr], Stmt]) -> Stmt:
            return size.each(lambda i, j: vector(lanes, lambda v: body(i, j, v)))

        def combine(channel: Expr, taps: list[Expr]) -> Stmt:
            at = {a.var: t for a, t in zip(form.taps, taps, strict=True)}
            origin = tile.position(channel, at) + start * lanes
            at |= place.where | self._channel(place.channel + channel)
            return self._products((packed, origin), (held, size), at, first)

        width = tile.vectors * lanes

        def kept(i: Expr, j: Expr, lane: Expr) -> Expr:
            assert sums is not None
            return sums.start + i * width + (start + j) * lanes + lane

        def begin(i: Expr, j: Expr, v: Expr) -> Stmt:
            resumed = sums is not None and sums.resumed
            value = load(sums.buffer, kept(i, j, v)) if sums and resumed else form.stage.init
            return store(held, value, element(i, j, v))

        def line(i: Expr, j: int) -> Stmt:
            is_last = last and j == size.vectors - 1
            count = tile.height * tile.width - (tile.vectors - 1) * lanes if is_last else lanes

            def one(v: Expr) -> Stmt:
                y, x = split_index((start + j) * lanes + v, (tile.height, tile.width))
                value = load(held, element(i, integer(j), v))
                return self._result(place, first + i, (y, x), value)

            return vector(count, one)

        if sums is None:
            out = unrolled(size.rows, lambda i: sequence([line(i, j) for j in range(size.vectors)]))
        else:
            buffer = sums.buffer
            out = each(lambda i, j, v: store(buffer, load(held, element(i, j, v)), kept(i, j, v)))
        accumulate = loop(
            tile.channels, lambda c: self._taps(size, lambda t: combine(c, t)), name="channel"
        )
        return scoped([held], sequence([each(begin), accumulate, out]), "registers")

    def _products(
        self,
        packed: tuple[Buffer, Expr],
        held: tuple[Buffer, RegisterTile],
        at: dict[tirx.Var, Expr],
        first: Expr,
    ) -> Stmt:
        """Add the products of one channel and tap to the sums of the rows from `first`."""
        (operand, origin), (sums, size) = packed, held
        form, lanes = self.form, self.context.machine.lanes

        def product(i: Expr, j: Expr, lane: Expr) -> Stmt:
            term = load(operand, origin + j * lanes + lane)
            if form.still is not None:
                term = self._still(at, first + i) * term
            index = size.place(i, j, lanes) + lane
            return store(sums, form.combine(load(sums, index), term), index)

        return size.each(lambda i, j: vector(lanes, lambda v: product(i, j, v)))

    def _taps(self, size: RegisterTile, body: Callable[[list[Expr]], Stmt]) -> Stmt:
        """Loops over the taps. The last loop is unrolled if the body stays short."""
        taps = extents(self.form.taps)
        products = size.rows * size.vectors
        if not taps or taps[-1] * products > UNROLLED_PRODUCTS:
            return nest(taps, body, "tap")
        return nest(taps[:-1], lambda outer: unrolled(taps[-1], lambda t: body([*outer, t])), "tap")

    def _still(self, at: dict[tirx.Var, Expr], row: Expr) -> Expr:
        parts = split_index(row, extents(self.form.rows))
        at = at | {a.var: p for a, p in zip(self.form.rows, parts, strict=True)}
        return substitute(self.form.still, at)

    def _finish(
        self,
        tile: Packed,
        sums: Buffer,
        place: Place,
        first: Expr,
        count: int,
    ) -> Stmt:
        """Apply the epilogue to the sums and store the results."""
        form = self.form

        def element(i: Expr, y: Expr, x: Expr) -> Stmt:
            held = load(sums, (i * tile.vectors) * tile.lanes + y * tile.pitch + x)
            return self._result(place, first + i, (y, x), held)

        def plane(i: Expr) -> Stmt:
            sizes = (tile.height, tile.width)
            return vectorised(prod(sizes), tile.lanes, lambda e: element(i, *split_index(e, sizes)))

        if self._is_joined(tile):
            return loop(count, plane, name="row")

        def row(i: Expr, y: Expr) -> Stmt:
            line = vectorised(tile.width, tile.lanes, lambda x: element(i, y, x))
            if form.y is None or self.height % tile.height == 0:
                return line
            return tirx.IfThenElse(place.y + y < self.height, line, None)

        return loop(count, lambda i: loop(tile.height, lambda y: row(i, y), name="y"), name="row")

    def _result(self, place: Place, row: Expr, at: tuple[Expr, Expr], held: Expr) -> Stmt:
        """Apply the epilogue to the sum of one element of a tile, and store the result."""
        form = self.form
        parts = split_index(row, extents(form.rows))
        where = place.where | {a.var: p for a, p in zip(form.rows, parts, strict=True)}
        where[form.x.axis.var] = place.x + at[1]
        if form.y:
            where[form.y.axis.var] = place.y + at[0]
        epilogue, at_output = self.group.epilogue, written_at(form, where)
        return finish(self.context, epilogue, at_output, {form.stage.buffer: held})
