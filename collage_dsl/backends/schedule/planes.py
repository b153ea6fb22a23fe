"""
Loops of a window that slides over each plane by itself: depthwise convolutions and pooling.

A strip of a plane is copied, with its padding, into a buffer in the first-level cache. Then the
sums of a few rows and vectors stay in registers until their results are stored: neighbouring rows
read the same elements, and so each vector is read once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, reduce
from itertools import product
from math import prod

from tvm import tirx

from collage_dsl.backends.schedule.context import Context, finish
from collage_dsl.backends.schedule.expressions import Buffer, Expr, integer, substitute
from collage_dsl.backends.schedule.groups import Group
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
)
from collage_dsl.backends.schedule.machine import Machine
from collage_dsl.backends.schedule.packing import Packed, source_of
from collage_dsl.backends.schedule.sliding import Sliding, written_at
from collage_dsl.backends.schedule.stages import extents

STRIP_BYTES = 20 * 1024  # of a first-level cache of 32 KiB
UNROLLED = 448  # the most multiplications in the code of one register tile
ACROSS_LINES = 1.6  # reads of a vector that is not at a multiple of its size


def slides_over_planes(form: Sliding) -> bool:
    """Whether each output plane is computed from one input plane."""
    return form.y is not None and not form.rows and prod(extents(form.channels)) == 1


@dataclass(frozen=True, slots=True)
class Block:
    """The rows and vectors of a plane whose sums are in registers at once."""

    rows: int
    vectors: int


@dataclass(frozen=True, slots=True)
class Taps:
    """The number of taps of a window down and across, and its stride down."""

    down: int
    across: int
    stride: int

    @property
    def count(self) -> int:
        return self.down * self.across


class PlaneKernel:
    """
    The loops of one group whose anchor slides over planes.

    Maxima are first taken across the rows of a window: those of one row are the same for all
    windows that it is in, and LLVM computes them once.
    """

    def __init__(self, form: Sliding, group: Group, context: Context) -> None:
        assert form.y is not None
        self.form, self.group, self.context = form, group, context
        self.height, self.width = form.y.axis.extent, form.x.axis.extent
        self.lanes = min(context.machine.lanes, 1 << (self.width - 1).bit_length())
        self.strip = self._strip()
        self.vectors = -(-self.width // self.lanes)
        self.is_sum = form.combine is tirx.Add
        self.down, across = (extents([axis for axis, _ in w.taps]) for w in (form.y, form.x))
        self.across = [()] if self.is_sum else list(product(*map(range, across)))
        self.taps = Taps(prod(self.down), prod(across), form.y.stride)
        self.block = block(self.strip.height, self.vectors, self.taps, context.machine)

    def _strip(self) -> Packed:
        """The strip of a plane that stays in the first-level cache."""
        strips = (
            Packed(self.form.y, self.form.x, 1, -(-self.height // parts), self.width, self.lanes)
            for parts in range(1, self.height + 1)
        )
        return next(s for s in strips if 4 * s.size <= STRIP_BYTES or s.height == 1)

    def statement(self) -> Stmt:
        """All planes, in strips."""
        counts = (*extents(self.form.batch), -(-self.height // self.strip.height))

        def task(number: Expr) -> Stmt:
            *at, strip = split_index(number, counts)
            return self._one(at, strip * self.strip.height)

        return parallel(prod(counts), self.context.machine.cores, task)

    def _one(self, batch: list[Expr], y: Expr) -> Stmt:
        form = self.form
        where = {axis.var: at for axis, at in zip(form.batch, batch, strict=True)}
        where |= {a.var: integer(0) for a in (*form.stage.spatial, *form.channels) if a.extent == 1}
        # Vectors of the last rows read past the end of what is packed.
        packed = scratch(self.strip.size + self.lanes, "float32", "packed")
        operand = [substitute(index, where) for index in form.moving.indices]
        assert form.y is not None
        slid = [form.y.dimension, form.x.dimension]
        source = source_of(form.moving.source, self.context.inlined, slid)
        fill = self.strip.fill(packed, source, lambda _: operand, y, integer(0))
        return scoped([packed], sequence([fill, self._blocks(packed, where, y)]), "strip")

    def _blocks(self, packed: Buffer, where: dict[tirx.Var, Expr], y: Expr) -> Stmt:
        def rows(first: Expr, count: int) -> Stmt:
            def columns(start: Expr, vectors: int, last: bool) -> Stmt:
                size = Block(count, vectors)
                return self._registers(packed, where, y, (first, start), size, last)

            return in_blocks(self.vectors, self.block.vectors, columns)

        return in_blocks(self.strip.height, self.block.rows, lambda f, count, _: rows(f, count))

    def _registers(
        self,
        packed: Buffer,
        where: dict[tirx.Var, Expr],
        y: Expr,
        corner: tuple[Expr, Expr],
        size: Block,
        last: bool,
    ) -> Stmt:
        """Accumulate a block in registers, then apply the epilogue and store the results."""
        form, lanes, pitch = self.form, self.lanes, self.strip.pitch
        held = scratch(size.rows * size.vectors * lanes, "float32", "held", "local")
        first, start = corner

        def each(body: Callable[[Expr, Expr, Expr], Stmt]) -> Stmt:
            return unrolled(
                size.rows,
                lambda i: unrolled(size.vectors, lambda j: vector(lanes, lambda v: body(i, j, v))),
            )

        def element(i: Expr, j: Expr, v: Expr) -> Expr:
            return (i * size.vectors + j) * lanes + v

        def combine(taps: list[Expr], begins: bool = False) -> Stmt:
            def term(more: tuple[int, ...], place: Expr) -> Expr:
                tap = (*taps, *map(integer, more))
                at = {a.var: t for a, t in zip(form.taps, tap, strict=True)}
                value = load(packed, self.strip.position(integer(0), at) + place)
                return value if form.still is None else substitute(form.still, where | at) * value

            def one(i: Expr, j: Expr, v: Expr) -> Stmt:
                place = element(i, j, v)
                origin = first * pitch + start * lanes + i * pitch + j * lanes + v
                value = reduce(form.combine, [term(more, origin) for more in self.across])
                if not begins:
                    value = form.combine(load(held, place), value)
                return store(held, value, place)

            return each(one)

        def line(i: Expr, j: int) -> Stmt:
            count = lanes
            if last and j == size.vectors - 1:
                count = self.width - (self.vectors - 1) * lanes
            return vector(
                count,
                lambda v: self._done(
                    held, where, y, (first + i, start + j), v, element(i, integer(j), v)
                ),
            )

        def row(i: Expr) -> Stmt:
            stored = sequence([line(i, j) for j in range(size.vectors)])
            if self.height % self.strip.height == 0:
                return stored
            return tirx.IfThenElse(y + first + i < self.height, stored, None)

        if self.is_sum:
            begin = each(lambda i, j, v: store(held, form.stage.init, element(i, j, v)))
            more = self._taps(size, combine)
        else:
            begin = combine(split_index(integer(0), self.down), True)
            more = self._more_rows(size, lambda row: combine(split_index(row, self.down)))
        return scoped([held], sequence([begin, more, unrolled(size.rows, row)]), "registers")

    def _taps(self, size: Block, body: Callable[[list[Expr]], Stmt]) -> Stmt:
        taps = extents(self.form.taps)
        if prod(taps) * size.rows * size.vectors <= UNROLLED:
            return _unrolled_nest(taps, body)
        return nest(taps[:-1], lambda outer: unrolled(taps[-1], lambda t: body([*outer, t])), "tap")

    def _more_rows(self, size: Block, body: Callable[[Expr], Stmt]) -> Stmt | None:
        """`body` for each row of a window but the first."""
        count = prod(self.down) - 1
        if count == 0:
            return None
        short = self.taps.count * size.rows * size.vectors <= UNROLLED
        return (unrolled if short else loop)(count, lambda row: body(row + 1))

    def _done(
        self,
        held: Buffer,
        where: dict[tirx.Var, Expr],
        y: Expr,
        corner: tuple[Expr, Expr],
        lane: Expr,
        place: Expr,
    ) -> Stmt:
        form = self.form
        assert form.y is not None
        row, start = corner
        at = where | {form.y.axis.var: y + row, form.x.axis.var: start * self.lanes + lane}
        value = {form.stage.buffer: load(held, place)}
        return finish(self.context, self.group.epilogue, written_at(form, at), value)


def _unrolled_nest(counts: tuple[int, ...], body: Callable[[list[Expr]], Stmt]) -> Stmt:
    if not counts:
        return body([])
    return unrolled(
        counts[0], lambda i: _unrolled_nest(counts[1:], lambda rest: body([i, *rest])), "tap"
    )


@cache
def block(height: int, vectors: int, taps: Taps, machine: Machine) -> Block:
    """The cheapest block: few reads for each multiplication, and few rows or vectors left over."""
    return min(_blocks(height, vectors, taps, machine), key=lambda found: found[0])[1]


def _blocks(
    height: int, vectors: int, taps: Taps, machine: Machine
) -> Iterator[tuple[float, Block]]:
    for rows in range(1, min(height, 8) + 1):
        for columns in range(1, min(vectors, 4) + 1):
            size = Block(rows, columns)
            most = machine.registers * 3 // 4
            if rows * columns > most or rows * columns * taps.count > max(UNROLLED, taps.count):
                continue
            yield _cycles(size, height, vectors, taps), size


def _cycles(size: Block, height: int, vectors: int, taps: Taps) -> float:
    total = 0.0
    for rows, many in _pieces(height, size.rows):
        for columns, times in _pieces(vectors, size.vectors):
            read_rows = (rows - 1) * taps.stride + taps.down
            reads = ACROSS_LINES * columns * taps.across * read_rows
            products = rows * columns * taps.count
            waiting = 4 * taps.count
            total += many * times * (max(reads, products, waiting) + 8)
    return total


def _pieces(total: int, size: int) -> list[tuple[int, int]]:
    full, rest = divmod(total, size)
    return [(size, full), (rest, 1)] if rest else [(size, full)]
