"""
Loops of a convolution with packed weights: pixels in vectors, output channels as scalars.

The sums of a tile lie in memory as the result does, so they are not transposed.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx
from tvm.tirx import ForKind

from collage_dsl.backends.schedule.expressions import Buffer, Expr, integer
from collage_dsl.backends.schedule.gemm.image_kernel import Buffers, ImageKernel, Place
from collage_dsl.backends.schedule.gemm.panels import Panel
from collage_dsl.backends.schedule.gemm.registers import SumTile
from collage_dsl.backends.schedule.loops import (
    Stmt,
    load,
    loop,
    scoped,
    scratch,
    sequence,
    store,
    vectorised,
)


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """The tile of a panel with a number, and its sums, from `start` in a buffer."""

    panel: Panel
    number: Expr
    pixels: int
    sums: Buffer
    start: Expr

    def place(self, column: Expr, pixel: Expr) -> Expr:
        """Where the sum of a column and a pixel of the tile is."""
        return self.start + column * self.pixels + pixel


class PixelKernel(ImageKernel):
    """The loops of one group whose anchor is a convolution with packed weights."""

    @property
    def _by_tiles(self) -> bool:
        return True

    def _copied_tap(self, buffers: Buffers, start: Expr, inner: Expr) -> Stmt:
        lanes, chunks = self.lanes, -(-self.strip // self.lanes)

        def copy(chunk: Expr, value: Expr) -> Stmt:
            to = tirx.Ramp(self._at(inner, chunk * lanes), integer(1), lanes)
            return store(buffers.pixels, value, to)

        def of_row(chunk: Expr) -> Stmt:
            return copy(chunk, self._read(buffers, start, integer(0), chunk * lanes))

        if self.blocks.rows == 1:
            return loop(chunks, of_row, name="copy")
        return sequence([copy(integer(c), self._across(buffers, start, c)) for c in range(chunks)])

    def _across(self, buffers: Buffers, start: Expr, chunk: int) -> Expr:
        """A vector of the pixels of a strip, taken from each row that has some of them."""
        first = chunk * self.lanes
        numbers = (min(first + lane, self.strip - 1) for lane in range(self.lanes))
        pixels = [divmod(number, self.form.width) for number in numbers]
        columns = dict(reversed(pixels))
        values = {y: self._read(buffers, start, integer(y), integer(x)) for y, x in columns.items()}
        if len(values) == 1:
            return values[pixels[0][0]]
        places = {y: number * self.lanes for number, y in enumerate(values)}
        return tirx.Shuffle([*values.values()], [places[y] + x - columns[y] for y, x in pixels])

    def _sums(self) -> Buffer:
        """For the whole strip if the sums wait for the next part, else for a tile."""
        sums = self.panels.width
        if self._resumed:
            sums = self.panels.columns * self.tiles
        return scratch(sums * self.blocks.tile, "float32", "sums")

    def _finish(self, place: Place, buffers: Buffers, cores: int) -> Stmt | None:
        return None  # each tile is finished as soon as it is summed

    def _panel(self, place: Place, buffers: Buffers, part: Expr, panel: Panel) -> Stmt:
        """Multiply all tiles of a strip with one panel. Finish them after the last part."""
        pixels = self.blocks.tile

        def resumed(number: Expr) -> Stmt:
            start = (panel.column * self.tiles + number * panel.width) * pixels
            tile = Tile(panel, number, pixels, buffers.sums, start)
            is_last = part >= self.blocks.filters.parts - 1
            done = tirx.IfThenElse(is_last, self._tile_done(place, tile), None)
            return sequence([self._summed(place, buffers, part, tile), done])

        def at_once(number: Expr) -> Stmt:
            tile = Tile(panel, number, pixels, self._sums(), integer(0))
            summed = self._summed(place, buffers, part, tile)
            done = self._tile_done(place, tile)
            return scoped([tile.sums], sequence([summed, done]), "tile")

        tile = tirx.Var("tile", "int64")
        body = resumed(tile) if self._resumed else at_once(tile)
        return tirx.For(tile, integer(0), self._tiles_of(place.strip), ForKind.SERIAL, body)

    def _tiles_of(self, strip: Expr) -> Expr:
        """The number of tiles that hold pixels of a strip."""
        last = -(-self._last // self.blocks.tile)
        if last == self.tiles:
            return integer(last)
        is_last = strip >= self.blocks.strips - 1
        return tirx.Select(is_last, integer(last), integer(self.tiles))

    def _summed(self, place: Place, buffers: Buffers, part: Expr, tile: Tile) -> Stmt:
        """Sum one tile in registers over the channels of a part."""
        first = tile.number * tile.pixels

        def weight(column: Expr, inner: Expr) -> Expr:
            return load(self.packed, self._weight(place, part, tile.panel, inner, column))

        def pixel(inner: Expr, i: Expr) -> Expr:
            return load(buffers.pixels, self._at(inner, first) + i)

        def begin(column: Expr, i: Expr) -> Expr:
            is_first = not self._resumed
            return self.form.stage.init if is_first else load(tile.sums, tile.place(column, i))

        def out(column: Expr, i: Expr, value: Expr) -> Stmt:
            return store(tile.sums, value, tile.place(column, i))

        def ahead(inner: Expr) -> list[Stmt]:
            return self._fetched(place, part, tile.panel, tile.number, inner)

        registers = SumTile(tile.panel.width, tile.pixels, self.lanes)
        return registers.multiplied(self.inner, weight, pixel, begin, out, ahead)

    def _tile_done(self, place: Place, tile: Tile) -> Stmt:
        """Finish the pixels of a tile that exist."""

        def finished(count: int) -> Stmt:
            return loop(tile.panel.used, lambda c: column(c, count), name="column")

        def column(number: Expr, count: int) -> Stmt:
            def element(i: Expr) -> Stmt:
                value = load(tile.sums, tile.place(number, i))
                pixel = tile.number * tile.pixels + i
                return self._result(place, pixel, tile.panel.column + number, value)

            return vectorised(count, self.lanes, element)

        def of_strip(pixels: int) -> Stmt:
            full, rest = divmod(pixels, tile.pixels)
            if full == self.tiles:
                return finished(tile.pixels)
            partly = finished(rest) if rest else None
            if rest and full + 1 < self.tiles:
                partly = tirx.IfThenElse(tile.number <= full, partly, None)
            return tirx.IfThenElse(tile.number < full, finished(tile.pixels), partly)

        return self._for_pixels(place.strip, of_strip)
