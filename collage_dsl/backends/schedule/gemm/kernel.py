"""
Loops of a matrix product with packed weights: columns in vectors, rows as scalars.

No lane is lost where an image has few pixels, since the lanes hold channels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from tvm import tirx

from collage_dsl.backends.schedule.context import Context, finish
from collage_dsl.backends.schedule.expressions import Buffer, Expr, integer, substitute
from collage_dsl.backends.schedule.gemm.blocks import Blocks
from collage_dsl.backends.schedule.gemm.form import Product
from collage_dsl.backends.schedule.gemm.panels import Panel
from collage_dsl.backends.schedule.gemm.registers import SumTile
from collage_dsl.backends.schedule.groups import Group, wide
from collage_dsl.backends.schedule.loops import (
    Stmt,
    load,
    loop,
    parallel_nest,
    prefetched_share,
    scoped,
    scratch,
    sequence,
    split_index,
    store,
    vectorised,
)
from collage_dsl.backends.schedule.stages import extents

FETCHED_AHEAD = 2048  # elements between those that a single tile reads and those that it fetches
FETCHING_ROWS = 4  # the fewest rows of a single tile that fetches


@dataclass(frozen=True, slots=True, eq=False)
class Strip:
    """
    The place of a strip, and its packed rows with the strides of a row and an inner index. They
    have the elements from `inner`.
    """

    where: dict[tirx.Var, Expr]
    number: Expr
    rows: Buffer
    strides: tuple[int, int]
    inner: Expr

    def element(self, row: Expr, inner: Expr) -> Expr:
        by_row, by_inner = self.strides
        return row * by_row + inner * by_inner


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """The sums of a tile, from `start` in a buffer: a row of `panel.width` sums for each row."""

    buffer: Buffer
    start: Expr
    panel: Panel

    def load(self, row: Expr, column: Expr) -> Expr:
        return load(self.buffer, self.start + row * self.panel.width + column)

    def from_row(self, row: Expr) -> Sums:
        return replace(self, start=self.start + row * self.panel.width)


class GemmKernel:
    """The loops of one group whose anchor is a product with packed weights."""

    dtype = "float32"  # of the sums

    def __init__(
        self, form: Product, blocks: Blocks, packed: Buffer, group: Group, context: Context
    ) -> None:
        self.form, self.packed, self.group, self.context = form, packed, group, context
        self.tiles, self.panels, self.blocks = blocks.tiles, blocks.panels, blocks
        self.lanes = context.machine.lanes

    def statement(self, *, few: bool = False) -> Stmt:
        """
        All strips, shared among the cores. If these are too few, as a number that is not known may
        be, the panels are shared.
        """
        counts = (*extents(self.form.batch), self.tiles.strips)
        total, cores = prod(counts), self.context.machine.cores
        inside = few or total < cores

        def task(place: list[Expr]) -> Stmt:
            *at, strip = place
            batch = {axis.var: i for axis, i in zip(self.form.batch, at, strict=True)}
            return self._strip(self.form.fixed | batch, strip, cores if inside else 1)

        return parallel_nest(counts, 1 if inside else cores, task)

    def _strip(self, where: dict[tirx.Var, Expr], number: Expr, cores: int) -> Stmt:
        """Pack the rows of a strip, then multiply them with each panel of the weights."""
        depth, height = self.blocks.depth, self.tiles.strip
        strides = (pitch(depth, self.lanes), 1)
        size = height * strides[0]
        if not self.form.by_inner:
            strides = (1, pitch(height, self.lanes))
            size = depth * strides[1]
        rows = scratch(size, "float32", "rows")

        def strip(part: Expr) -> Strip:
            return Strip(where, number, rows, strides, part * depth)

        body = self._in_parts if self.blocks.parts > 1 else self._at_once
        return scoped([rows], body(strip, cores), "strip")

    def _at_once(self, strip: Callable[[Expr], Strip], cores: int) -> Stmt:
        whole = strip(integer(0))
        panels = self.panels.each(lambda panel: self._panel(whole, panel), cores)
        return sequence([self._filled(whole), panels])

    def _in_parts(self, strip: Callable[[Expr], Strip], cores: int) -> Stmt:
        """Sum one part of the inner axis after the other, for all panels."""
        height, columns = self.tiles.strip, self.panels.padded
        buffer = scratch(height * columns, "float32", "sums")

        def sums(panel: Panel) -> Sums:
            return Sums(buffer, panel.column * height, panel)

        def part(number: Expr) -> Stmt:
            now = strip(number)
            added = self.panels.each(lambda panel: self._added(now, sums(panel)), cores)
            return sequence([self._filled(now), added])

        def blank(element: Expr) -> Stmt:
            return store(buffer, self.form.stage.init, element)

        parts = [
            vectorised(height * columns, self.lanes, blank),
            loop(self.blocks.parts, part, name="part"),
            self.panels.each(lambda panel: self._finished(strip(integer(0)), sums(panel)), cores),
        ]
        return scoped([buffer], sequence(parts), "parts")

    def _for_rows(self, strip: Expr, body: Callable[[int], Stmt]) -> Stmt:
        """`body` for the number of rows of a strip."""
        tiles = self.tiles
        if tiles.strips == 1 or tiles.last == tiles.strip:
            return body(tiles.last)
        return tirx.IfThenElse(strip < tiles.strips - 1, body(tiles.strip), body(tiles.last))

    def _filled(self, strip: Strip) -> Stmt:
        return self._for_rows(strip.number, lambda count: self._fill(strip, count))

    def _fill(self, strip: Strip, count: int) -> Stmt:
        """Copy the rows of a strip in the order in which they lie in memory."""
        form = self.form

        def copy(row: Expr, inner: Expr) -> Stmt:
            at = self._at(strip, row) | {form.inner.var: strip.inner + inner}
            return store(strip.rows, substitute(form.operand, at), strip.element(row, inner))

        depth = self.blocks.depth
        if form.by_inner:
            return loop(count, lambda r: vectorised(depth, self.lanes, lambda k: copy(r, k)))
        return loop(depth, lambda k: vectorised(count, self.lanes, lambda r: copy(r, k)))

    def _at(self, strip: Strip, row: Expr) -> dict[tirx.Var, Expr]:
        """The index of each axis of the output but the column, at a row of a strip."""
        parts = split_index(strip.number * self.tiles.strip + row, extents(self.form.rows))
        return strip.where | {a.var: p for a, p in zip(self.form.rows, parts, strict=True)}

    def _panel(self, strip: Strip, panel: Panel) -> Stmt:
        """Multiply all tiles of a strip with one panel, and store the results."""
        tiles, waiting = self.tiles, self.form.by_columns
        height = tiles.strip if waiting else tiles.height
        buffer = scratch(height * panel.width, self.dtype, "sums")

        def tile(number: Expr) -> Stmt:
            row = number * tiles.height
            sums = Sums(buffer, row * panel.width if waiting else integer(0), panel)
            computed = self._registers(strip, sums, number)
            return computed if waiting else sequence([computed, self._rows_done(strip, sums, row)])

        parts = [self._tiles(strip.number, tile)]
        if waiting:
            whole = Sums(buffer, integer(0), panel)
            parts.append(
                self._for_rows(strip.number, lambda n: self._columns_done(strip, whole, n))
            )
        return scoped([buffer], sequence(parts), "panel")

    def _added(self, strip: Strip, sums: Sums) -> Stmt:
        """Add a part of the products with one panel to the sums of a strip."""
        tiles = self.tiles

        def tile(number: Expr) -> Stmt:
            row = number * tiles.height
            return self._registers(strip, sums.from_row(row), number, resumed=True)

        return self._tiles(strip.number, tile)

    def _finished(self, strip: Strip, sums: Sums) -> Stmt:
        """Store the results of a strip for one panel."""
        tiles = self.tiles
        if self.form.by_columns:
            return self._for_rows(strip.number, lambda n: self._columns_done(strip, sums, n))

        def tile(number: Expr) -> Stmt:
            row = number * tiles.height
            return self._rows_done(strip, sums.from_row(row), row)

        return self._tiles(strip.number, tile)

    def _tiles(self, strip: Expr, body: Callable[[Expr], Stmt]) -> Stmt:
        """`body` for each tile of a strip, of which the last one may have fewer."""
        tiles = self.tiles
        if tiles.last_tiles == tiles.tiles:
            return loop(tiles.tiles, body, name="tile")
        is_last = strip >= tiles.strips - 1
        count = tirx.Select(is_last, integer(tiles.last_tiles), integer(tiles.tiles))
        variable = tirx.Var("tile", "int64")
        return tirx.For(variable, integer(0), count, tirx.ForKind.SERIAL, body(variable))

    def _registers(self, strip: Strip, sums: Sums, tile: Expr, *, resumed: bool = False) -> Stmt:
        """Sum one tile in registers over the inner axis, from the sums so far if `resumed`."""
        panel, first = sums.panel, tile * self.tiles.height

        def row(i: Expr, inner: Expr) -> Expr:
            return load(strip.rows, strip.element(first + i, inner))

        def weight(inner: Expr, column: Expr) -> Expr:
            return load(self.packed, self.panels.place(panel, strip.inner + inner, column))

        def begin(i: Expr, column: Expr) -> Expr:
            return sums.load(i, column) if resumed else self.form.stage.init

        def out(i: Expr, column: Expr, value: Expr) -> Stmt:
            return store(sums.buffer, value, sums.start + i * panel.width + column)

        def ahead(inner: Expr) -> list[Stmt]:
            return self._fetched(strip, panel, tile, inner)

        registers = SumTile(self.tiles.height, panel.width, self.lanes)
        return registers.multiplied(self.blocks.depth, row, weight, begin, out, ahead)

    def _fetched(
        self, strip: Strip, panel: Panel, tile: Expr, inner: Expr, count: int = 1
    ) -> list[Stmt]:
        """
        Fetch weights into the cache, a few in each step of a tile, for `count` steps at once.

        The tiles of a panel read the same weights, so without this only the first one waits for
        memory. All of them fetch those of the next panel, and memory is never idle. A single tile
        fetches what it reads soon; if it has few rows, the processor does that by itself.
        """
        tiles, depth, width = self.tiles.tiles, self.blocks.depth, panel.width
        if tiles == 1:
            if self.tiles.height < FETCHING_ROWS:
                return []
            soon = self.panels.place(panel, strip.inner + inner, integer(FETCHED_AHEAD))
            return prefetched_share(self.packed, soon, count * width, integer(0), 1, self.lanes)
        after = self.panels.place(panel, strip.inner + self.panels.inner, integer(0))
        step, steps = (tile * depth + inner) // count, tiles * depth // count
        return prefetched_share(self.packed, after, depth * width, step, steps, self.lanes)

    def _rows_done(self, strip: Strip, sums: Sums, first: Expr) -> Stmt:
        """Finish the rows of a tile that exist, each along its columns."""
        tiles = self.tiles

        def row(i: Expr) -> Stmt:
            def element(column: Expr) -> Stmt:
                return self._done(strip, first + i, sums, column, sums.load(i, column))

            line = vectorised(sums.panel.used, self.lanes, element)
            if tiles.rows % tiles.height == 0:
                return line
            exists = strip.number * tiles.strip + first + i < tiles.rows
            return tirx.IfThenElse(exists, line, None)

        return loop(tiles.height, row, name="row")

    def _columns_done(self, strip: Strip, sums: Sums, count: int) -> Stmt:
        """Finish the columns of a strip, each along its rows."""

        def column(number: Expr) -> Stmt:
            def element(row: Expr) -> Stmt:
                return self._done(strip, row, sums, number, sums.load(row, number))

            return vectorised(count, self.lanes, element)

        return loop(sums.panel.used, column, name="column")

    def _done(self, strip: Strip, row: Expr, sums: Sums, column: Expr, value: Expr) -> Stmt:
        form = self.form
        at = self._at(strip, row) | {form.column.var: sums.panel.column + column}
        index = [at[axis.var] for axis in wide(form.stage.spatial)]
        return finish(self.context, self.group.epilogue, index, {form.stage.buffer: value})


def pitch(size: int, lanes: int) -> int:
    """An odd number of vectors that holds `size`, so that rows do not share sets of the cache."""
    return (-(-size // lanes) | 1) * lanes
