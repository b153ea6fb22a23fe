"""
Loops of a block of convolutions, with vectors of channels.

A strip of rows is computed for some channels after the others: those that the depthwise convolution
reads, its own results, and what these add to the last sums. So nothing between the convolutions is
in memory, and no lane is lost where an image has few pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from tvm import tirx

from collage_dsl.backends.schedule.context import Context, finish
from collage_dsl.backends.schedule.depthwise.form import Part, read_value, wide_index
from collage_dsl.backends.schedule.depthwise.sizes import Sizes, Tile
from collage_dsl.backends.schedule.depthwise.weights import order, place
from collage_dsl.backends.schedule.expressions import Buffer, Expr, integer
from collage_dsl.backends.schedule.functions import vectorisable
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
    vectorised,
)
from collage_dsl.backends.schedule.winograd.maps import Lines
from collage_dsl.backends.schedule.winograd.transpose import transposed

ZERO = tirx.FloatImm("float32", 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Strip:
    """A strip: its image, its first row, and what is kept of it for a chunk of the channels."""

    image: Expr
    y: Expr
    taken: Buffer
    near: Buffer
    sums: Buffer


@dataclass(frozen=True, slots=True, eq=False)
class BlockKernel:
    """The loops of a whole block. `weights` are packed, by part."""

    sizes: Sizes
    weights: dict[Part, Buffer]
    context: Context

    def statement(self) -> Stmt:
        """All strips, shared among the cores."""
        sizes, part = self.sizes, self.sizes.block.depthwise
        counts = (part.batch, sizes.strips)

        def task(number: Expr) -> Stmt:
            image, strip = split_index(number, counts)
            # The last strip ends with the image, and computes some rows of the one before again.
            last = integer(part.height - sizes.height)
            y = integer(0) if sizes.strips == 1 else tirx.min(strip * sizes.height, last)
            return self._strip(image, y)

        return parallel(counts[0] * counts[1], self.context.machine.cores, task)

    def _strip(self, image: Expr, y: Expr) -> Stmt:
        sizes = self.sizes
        near = sizes.rows * sizes.block.depthwise.width
        if sizes.last:
            near = -(-near // sizes.last.pixels) * sizes.last.pixels
        else:
            near = sizes.sums_pixels
        taken = scratch(sizes.taken_rows * sizes.pitch * sizes.width, "float32", "taken")
        close = scratch(near * sizes.width, "float32", "near")
        wide = sizes.panels * sizes.last.width if sizes.last else 1
        sums = scratch(sizes.sums_pixels * wide, "float32", "sums")
        strip = Strip(image, y, taken, close, sums)
        parts = [self._zero(taken), self._zero(close)]
        parts += [self._zero(sums)] if sizes.last else []
        parts.append(loop(sizes.chunks, lambda n: self._chunk(strip, n), name="chunk"))
        if sizes.last and sizes.block.last:
            parts.append(loop(sizes.panels, lambda p: self._panel_done(strip, p), name="panel"))
        return scoped([taken, close, sums], sequence(parts), "strip")

    def _zero(self, buffer: Buffer) -> Stmt:
        size = int(buffer.shape[0])
        return vectorised(size, self.context.machine.lanes, lambda e: store(buffer, ZERO, e))

    def _chunk(self, strip: Strip, number: Expr) -> Stmt:
        sizes = self.sizes
        taken = self._first(strip, number) if sizes.block.first else self._turned(strip, number)

        def rows(group: Expr) -> Stmt:
            windows = self._windows(strip, number, group)
            return sequence([windows, self._added(strip, number, group)]) if sizes.last else windows

        parts = [taken, loop(sizes.height // sizes.rows, rows, name="rows")]
        if not sizes.last:
            parts.append(self._near_done(strip, number))
        return sequence(parts)

    # What the depthwise convolution reads.

    def _taken_rows(self, strip: Strip, body: Callable[[Expr, Expr], Stmt]) -> Stmt:
        """`body` for each row of the strip that the image has, and the same row of the image."""
        part, rows = self.sizes.block.depthwise, self.sizes.taken_rows
        source = part.source
        top = strip.y * part.stride + (part.top - source.lower[2])
        extent = source.upper[2] - source.lower[2]
        first, end = tirx.max(integer(0), 0 - top), tirx.min(integer(rows), extent - top)
        row = tirx.Var("row", "int64")
        inner = body(first + row, top + first + row)
        return tirx.For(row, integer(0), end - first, tirx.ForKind.SERIAL, inner)

    def _taken_place(self, row: Expr, x: Expr, lane: Expr) -> Expr:
        """Where column `x` of the image lies in a row of the strip."""
        part, sizes = self.sizes.block.depthwise, self.sizes
        column = x + (part.source.lower[3] - part.left)
        return (row * sizes.pitch + column) * sizes.width + lane

    def _first(self, strip: Strip, number: Expr) -> Stmt:
        """The chunk of the first pointwise convolution."""
        part, sizes = self.sizes.block.first, self.sizes
        assert part
        tile = sizes.first
        weights, (counts, _) = self.weights[part], order(part, sizes)

        def one(row: Expr, y: Expr, start: Expr) -> Stmt:
            def pixel(i: Expr, c: Expr) -> Expr:
                at = [strip.image, c, y, start + i]
                return part.source.value(at)

            def weight(c: Expr, lane: Expr) -> Expr:
                return load(weights, place(counts, (number, c, lane)))

            def out(i: Expr, lane: Expr, value: Expr) -> Stmt:
                at = [strip.image, number * sizes.width + lane, y, start + i]
                result = vectorisable(read_value(sizes.block.depthwise, part, at, value))
                return store(strip.taken, result, self._taken_place(row, start + i, lane))

            return summed(tile, part.channels, pixel, weight, out)

        tiles = -(-part.width // tile.pixels)
        last = part.width - tile.pixels

        def line(row: Expr, y: Expr) -> Stmt:
            return loop(tiles, lambda t: one(row, y, _start(t, tile.pixels, tiles, last)), name="x")

        return self._taken_rows(strip, line)

    def _turned(self, strip: Strip, number: Expr) -> Stmt:
        """The chunk of an image that is in memory, with its channels in vectors."""
        part, sizes = self.sizes.block.depthwise, self.sizes
        source, lanes = part.source, self.sizes.first.lanes
        width = source.upper[3] - source.lower[3]

        def value(y: Expr, x: Expr, c: Expr) -> Expr:
            channel = number * sizes.width + c
            at = [strip.image, channel, y + source.lower[2], x + source.lower[3]]
            return vectorisable(source.value(at))

        def pixel(row: Expr, y: Expr, x: Expr, v: Expr) -> Stmt:
            def one(lane: Expr) -> Stmt:
                c = v * lanes + lane
                return store(strip.taken, value(y, x, c), self._taken_place(row, x, c))

            return vector(lanes, one)

        def square(row: Expr, y: Expr, start: Expr, v: Expr) -> Stmt:
            lines, block = Lines(lanes), scratch(lanes * lanes, "float32", "square", "local")
            filled = unrolled(
                lanes,
                lambda c: vector(
                    lanes, lambda x: store(block, value(y, start + x, v * lanes + c), c * lanes + x)
                ),
            )
            read = [lines.read(block, integer(c * lanes)) for c in range(lanes)]
            for x, column in enumerate(transposed(lines, read)):
                lines.write(strip.taken, column, self._taken_place(row, start + x, v * lanes))
            return scoped([block], sequence([filled, *lines.statements]), "square")

        def line(row: Expr, y: Expr) -> Stmt:
            if width < lanes:
                return nest((sizes.first.vectors, width), lambda at: pixel(row, y, at[1], at[0]))
            tiles = -(-width // lanes)
            return nest(
                (sizes.first.vectors, tiles),
                lambda at: square(row, y, _start(at[1], lanes, tiles, width - lanes), at[0]),
            )

        return self._taken_rows(strip, line)

    # The windows of the depthwise convolution.

    def _windows(self, strip: Strip, number: Expr, group: Expr) -> Stmt:
        part, sizes = self.sizes.block.depthwise, self.sizes
        weights, (counts, _) = self.weights[part], order(part, sizes)
        tile = Tile(sizes.window_pixels, 1, sizes.first.lanes)
        tiles = -(-part.width // tile.pixels)
        counts_ = (sizes.rows, sizes.first.vectors, tiles)

        def one(window: Expr) -> Stmt:
            row, v, number_ = split_index(window, counts_)
            start = _start(number_, tile.pixels, tiles, part.width - tile.pixels)
            y = group * sizes.rows + row

            def element(i: Expr, tap: list[Expr], lane: Expr) -> Expr:
                down, across = y * part.stride + tap[0], (start + i) * part.stride + tap[1]
                position = (down * sizes.pitch + across) * sizes.width + v * tile.lanes + lane
                return load(strip.taken, position)

            def weight(tap: list[Expr], lane: Expr) -> Expr:
                return load(weights, place(counts, (number, *tap, v * tile.lanes + lane)))

            def out(i: Expr, lane: Expr, value: Expr) -> Stmt:
                c = v * tile.lanes + lane
                if sizes.block.last:
                    at = [strip.image, number * sizes.width + c, strip.y + y, start + i]
                    value = vectorisable(read_value(sizes.block.last, part, at, value))
                pixel = row * part.width + start + i
                return store(strip.near, value, pixel * sizes.width + c)

            return windowed(tile, part.taps, element, weight, out)

        # One loop: LLVM gives registers to the deepest loops first, and the sums have to be there.
        return loop(prod(counts_), one, name="window")

    # The last sums, and the results.

    def _added(self, strip: Strip, number: Expr, group: Expr) -> Stmt:
        """Add what a chunk gives to the sums of some rows."""
        part, sizes, tile = self.sizes.block.last, self.sizes, self.sizes.last
        assert part
        assert tile
        weights, (counts, _) = self.weights[part], order(part, sizes)
        near = sizes.rows * part.width

        def one(at: list[Expr]) -> Stmt:
            panel, number_ = at
            start = number_ * tile.pixels

            def pixel(i: Expr, c: Expr) -> Expr:
                return load(strip.near, (start + i) * sizes.width + c)

            def weight(c: Expr, lane: Expr) -> Expr:
                return load(weights, place(counts, (number, panel, c, lane)))

            def sum_(i: Expr, lane: Expr) -> Expr:
                pixel = group * near + start + i
                return (panel * sizes.sums_pixels + pixel) * tile.width + lane

            # LLVM spills sums that begin with values of memory.
            def out(i: Expr, lane: Expr, value: Expr) -> Stmt:
                place = sum_(i, lane)
                return store(strip.sums, load(strip.sums, place) + value, place)

            return summed(tile, sizes.width, pixel, weight, out)

        return nest((sizes.panels, -(-near // tile.pixels)), one, "tile")

    def _panel_done(self, strip: Strip, panel: Expr) -> Stmt:
        part, sizes, tile = self.sizes.block.last, self.sizes, self.sizes.last
        assert part
        assert tile

        def one(v: Expr) -> Stmt:
            first = panel * (sizes.sums_pixels * tile.width) + v * tile.lanes
            channel = panel * tile.width + v * tile.lanes
            return self._done(strip, part, (strip.sums, first, tile), channel)

        return loop(tile.vectors, one, name="vector")

    def _near_done(self, strip: Strip, number: Expr) -> Stmt:
        part, tile = self.sizes.block.depthwise, self.sizes.first

        def one(v: Expr) -> Stmt:
            channel = number * tile.width + v * tile.lanes
            return self._done(strip, part, (strip.near, v * tile.lanes, tile), channel)

        return loop(tile.vectors, one, name="vector")

    def _done(
        self, strip: Strip, part: Part, sums: tuple[Buffer, Expr, Tile], channel: Expr
    ) -> Stmt:
        """The results of a vector of channels, turned so that pixels are in vectors."""
        buffer, first, tile = sums
        lanes, sizes = tile.lanes, self.sizes
        squares = -(-sizes.pixels // lanes)
        turned = scratch(squares * lanes * lanes, "float32", "turned")

        def square(number: Expr) -> Stmt:
            lines = Lines(lanes)
            start = first + number * (lanes * tile.width)
            rows = [lines.read(buffer, start + i * tile.width) for i in range(lanes)]
            for c, column in enumerate(transposed(lines, rows)):
                lines.write(turned, column, (number * lanes + c) * lanes)
            return sequence(lines.statements)

        def line(c: Expr) -> Stmt:
            return vectorised(
                sizes.pixels,
                lanes,
                lambda p: self._result(strip, part, turned, (channel, c), p, lanes),
            )

        count: Expr = tirx.min(integer(lanes), part.filters - channel)
        c = tirx.Var("c", "int64")
        finished = tirx.For(c, integer(0), count, tirx.ForKind.SERIAL, line(c))
        return scoped(
            [turned], sequence([loop(squares, square, name="square"), finished]), "turned"
        )

    def _result(
        self,
        strip: Strip,
        part: Part,
        turned: Buffer,
        channel: tuple[Expr, Expr],
        pixel: Expr,
        lanes: int,
    ) -> Stmt:
        first, c = channel
        y, x = split_index(pixel, (self.sizes.height, part.width))
        number, lane = split_index(pixel, (-(-self.sizes.pixels // lanes), lanes))
        held = load(turned, (number * lanes + c) * lanes + lane)
        at = wide_index(part.stage.buffer, [strip.image, first + c, strip.y + y, x])
        return finish(self.context, part.group.epilogue, at, {part.stage.buffer: held})


def _start(number: Expr, size: int, tiles: int, last: int) -> Expr:
    """The first pixel of a tile. The last tile ends with the row."""
    return integer(0) if tiles == 1 else tirx.min(number * size, integer(last))


Element = Callable[[Expr, Expr], Expr]


def summed(
    tile: Tile,
    steps: int,
    pixel: Element,
    weight: Element,
    out: Callable[[Expr, Expr, Expr], Stmt],
) -> Stmt:
    """`out(i, lane, sum over k of pixel(i, k) * weight(k, lane))` for each sum of a tile."""
    held = scratch(tile.pixels * tile.width, "float32", "held", "local")

    def step(k: Expr) -> Stmt:
        def add(i: Expr, lane: Expr, place: Expr) -> Stmt:
            return store(held, load(held, place) + pixel(i, k) * weight(k, lane), place)

        return _each(tile, add)

    return scoped(
        [held],
        sequence(
            [
                _each(tile, lambda i, lane, place: store(held, ZERO, place)),
                loop(steps, step, name="inner"),
                _each(tile, lambda i, lane, place: out(i, lane, load(held, place))),
            ]
        ),
        "registers",
    )


def windowed(
    tile: Tile,
    taps: tuple[int, int],
    element: Callable[[Expr, list[Expr], Expr], Expr],
    weight: Callable[[list[Expr], Expr], Expr],
    out: Callable[[Expr, Expr, Expr], Stmt],
) -> Stmt:
    """The sums over the taps of a window for the pixels of a tile, in registers."""
    held = scratch(tile.pixels * tile.width, "float32", "held", "local")

    def tap(at: list[Expr]) -> Stmt:
        def add(i: Expr, lane: Expr, place: Expr) -> Stmt:
            return store(held, load(held, place) + element(i, at, lane) * weight(at, lane), place)

        return _each(tile, add)

    def across(down: Expr) -> Stmt:
        return unrolled(taps[1], lambda j: tap([down, j]))

    zero = _each(tile, lambda i, lane, place: store(held, ZERO, place))
    done = _each(tile, lambda i, lane, place: out(i, lane, load(held, place)))
    return scoped([held], sequence([zero, unrolled(taps[0], across), done]), "registers")


def _each(tile: Tile, body: Callable[[Expr, Expr, Expr], Stmt]) -> Stmt:
    def one(i: Expr, v: Expr) -> Stmt:
        def element(lane: Expr) -> Stmt:
            column = v * tile.lanes + lane
            return body(i, column, i * tile.width + column)

        return vector(tile.lanes, element)

    return unrolled(tile.pixels, lambda i: unrolled(tile.vectors, lambda v: one(i, v)))
