"""Loops of a Winograd convolution: transform a block of the image, multiply, transform back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm import tirx

from collage_dsl.backends.schedule.context import Context, finish
from collage_dsl.backends.schedule.expressions import Buffer, Expr, integer
from collage_dsl.backends.schedule.functions import vectorisable
from collage_dsl.backends.schedule.groups import Group
from collage_dsl.backends.schedule.loops import (
    Stmt,
    load,
    loop,
    nest,
    parallel,
    prefetched_share,
    scoped,
    scratch,
    sequence,
    split_index,
    store,
    unrolled,
    vector,
    vectorised,
)
from collage_dsl.backends.schedule.packing import Source, source_of
from collage_dsl.backends.schedule.stages import shape
from collage_dsl.backends.schedule.winograd.blocks import PADDING, Blocks, Piece
from collage_dsl.backends.schedule.winograd.form import Convolution
from collage_dsl.backends.schedule.winograd.maps import (
    BothWays,
    Lines,
    ramp,
    spread,
)
from collage_dsl.backends.schedule.winograd.transpose import turn

BUSY = 0.8  # the part of the time in which cores must work when they share blocks
FETCHED_BYTES = 128 * 1024  # the most weights of one point that are fetched while another is summed


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where a block is: the image, the group of channels, and the first row of outputs."""

    image: Expr
    group: Expr
    y: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """
    One point of the transforms, for one block of filters: where its weights start, the distance of
    the products of two points, and the vectors of filters.
    """

    number: Expr
    weights: Expr
    plane: int
    vectors: int


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Tiles that are summed at once: the first one, how many, and the number of the chunk."""

    tile: Expr
    size: int
    number: Expr


@dataclass(frozen=True, slots=True, eq=False)
class WinogradKernel:
    """The loops of one group whose anchor is a convolution. `weights` are transformed."""

    form: Convolution
    blocks: Blocks
    weights: Buffer
    group: Group
    context: Context

    def statement(self) -> Stmt:
        """
        The whole computation. Cores share the blocks; where that would leave some of them idle for
        long, they share the work inside each block.
        """
        counts = (self.form.batch, self.form.groups, self.blocks.number)
        total, cores = counts[0] * counts[1] * counts[2], self.context.machine.cores
        inside = total < BUSY * cores * -(-total // cores)

        def task(number: Expr) -> Stmt:
            image, group, block = split_index(number, counts)
            place = Place(image, group, self._first_row(block))
            return self._block(place, cores if inside else 1)

        return parallel(total, 1 if inside else cores, task)

    @property
    def _height(self) -> int:
        """The rows of outputs that a block computes."""
        return min(self.blocks.rows * self.blocks.tile.down.outputs, self.form.height)

    def _first_row(self, block: Expr) -> Expr:
        """The last block ends with the image, and computes some rows of the one before again."""
        if self.blocks.number == 1:
            return integer(0)
        return tirx.min(block * self._height, integer(self.form.height - self._height))

    def _block(self, place: Place, cores: int) -> Stmt:
        blocks = self.blocks
        data = scratch(blocks.tile.points * blocks.data_plane, "float32", "data")
        full, rest = divmod(blocks.channels, blocks.lanes)
        parts = []
        if full:
            parts.append(
                parallel(full, cores, lambda c: self._transformed(data, place, c, blocks.lanes))
            )
        if rest:
            parts.append(self._transformed(data, place, integer(full), rest))
        parts += [self._piece(data, place, piece, cores) for piece in blocks.pieces]
        return scoped([data], sequence(parts), "block")

    def _piece(self, data: Buffer, place: Place, piece: Piece, cores: int) -> Stmt:
        return parallel(piece.blocks, cores, lambda n: self._filters(data, place, piece, n))

    # The image: copied with its padding, channels last, and transformed.

    def _transformed(self, data: Buffer, place: Place, number: Expr, lanes: int) -> Stmt:
        """Block `number` of the channels, of which there are `lanes`, transformed into `data`."""
        blocks, tile = self.blocks, self.blocks.tile
        pitch = blocks.columns * tile.across.outputs + tile.across.taps - 1
        rows = blocks.rows * tile.down.outputs + tile.down.taps - 1
        strip = scratch(rows * pitch * lanes, "float32", "strip")
        copied = loop(
            rows,
            lambda r: self._copied(strip, place, number * blocks.lanes, r, pitch, lanes),
            name="row",
        )

        def one(at: list[Expr]) -> Stmt:
            row, column = at
            first = (row * tile.down.outputs * pitch + column * tile.across.outputs) * lanes
            target = (number * blocks.tiles + row * blocks.columns + column) * blocks.lanes
            return both.statement(
                held,
                lambda lines, i, j: lines.read(strip, first + (i * pitch + j) * lanes),
                lambda lines, i, j, value: lines.write(
                    data, value, target + (i * tile.across.inputs + j) * blocks.data_plane
                ),
            )

        both = BothWays(tile.down.data, tile.across.data, lanes, by_rows=True)
        held = both.between()
        transformed = nest((blocks.rows, blocks.columns), one, "tile")
        return scoped([strip, held], sequence([copied, transformed]), "strip")

    def _copied(
        self, strip: Buffer, place: Place, channel: Expr, row: Expr, pitch: int, lanes: int
    ) -> Stmt:
        form = self.form
        source = source_of(form.image, self.context.inlined, (2, 3))
        y = place.y + row + form.top
        first = place.group * form.channels + channel
        begin = min(max(0, source.lower[3] - form.left), pitch)
        end = max(begin, min(pitch, source.upper[3] - form.left))

        def value(x: Expr, lane: Expr) -> Expr:
            at = [place.image, first + lane, y, x + (begin + form.left)]
            return vectorisable(source.value(at))

        def element(x: Expr, lane: Expr) -> Stmt:
            return store(strip, value(x, lane), (row * pitch + x + begin) * lanes + lane)

        def blank(start: int, stop: int) -> Stmt | None:
            if start >= stop:
                return None
            return vectorised(
                (stop - start) * lanes,
                lanes,
                lambda e: store(strip, source.fill, (row * pitch + start) * lanes + e),
            )

        parts = [blank(0, begin), blank(end, pitch)]
        if lanes == self.blocks.lanes and end - begin >= lanes:
            target = (row * pitch + begin) * lanes
            parts.append(self._turned(strip, target, end - begin, value))
        elif end > begin:
            parts.append(
                loop(end - begin, lambda x: vector(lanes, lambda v: element(x, v)), name="x")
            )
        inside = self._inside(source, y)
        if inside is None:
            return sequence(parts)
        return tirx.IfThenElse(inside, sequence(parts), blank(0, pitch))

    def _turned(
        self, strip: Buffer, target: Expr, count: int, value: Callable[[Expr, Expr], Expr]
    ) -> Stmt:
        """
        Copy `count` numbers of each channel in square blocks, which are transposed.

        The last block ends with the row, and copies some numbers again.
        """
        lanes = self.blocks.lanes
        square = scratch(lanes * lanes, "float32", "square", "local")

        def block(number: Expr) -> Stmt:
            first = (
                tirx.min(number * lanes, integer(count - lanes)) if count > lanes else integer(0)
            )
            rows = unrolled(
                lanes,
                lambda c: vector(
                    lanes, lambda x: store(square, value(first + x, c), c * lanes + x)
                ),
            )
            lines = Lines(lanes)
            turn(lines, (square, integer(0)), (strip, target + first * lanes))
            return scoped([square], sequence([rows, *lines.statements]), "square")

        return loop(-(-count // lanes), block, name="square")

    def _inside(self, source: Source, y: Expr) -> Expr | None:
        """Whether row `y` is one of the source; None if every row is."""
        low, high = source.lower[2], source.upper[2]
        outputs = self.blocks.tile.down.outputs
        most = self.form.height + outputs + self.blocks.tile.down.taps - 2 + self.form.top
        checks = [y >= low] * (low > self.form.top) + [y < high] * (high < most)
        if not checks:
            return None
        return checks[0] if len(checks) == 1 else tirx.And(*checks)

    # The products, and what becomes of them.

    def _filters(self, data: Buffer, place: Place, piece: Piece, number: Expr) -> Stmt:
        """All results of one block of filters."""
        blocks, form = self.blocks, self.form
        width = piece.vectors * blocks.lanes
        plane = blocks.tiles * width + PADDING
        products = scratch(blocks.tile.points * plane, "float32", "products")
        first = place.group * blocks.packed + (
            (number * width + piece.first) * blocks.channels * blocks.tile.points
        )

        def point(number: Expr) -> Stmt:
            weights = first + number * (blocks.channels * width)
            return self._products(data, products, Point(number, weights, plane, piece.vectors))

        multiplied = loop(blocks.tile.points, point, name="point")
        filters = min(piece.filters, width)
        start = number * width + piece.first
        parts = [multiplied]
        full, rest = divmod(filters, blocks.lanes)

        def finished(v: Expr, count: int) -> Stmt:
            k = place.group * form.group_filters + start + v * blocks.lanes
            return self._results(products, plane, v, width, place, k, count)

        if full:
            parts.append(loop(full, lambda v: finished(v, blocks.lanes), name="vector"))
        if rest:
            parts.append(finished(integer(full), rest))
        return scoped([products], sequence(parts), "filters")

    def _products(self, data: Buffer, products: Buffer, point: Point) -> Stmt:
        """The products at one point, summed over the channels, for all tiles of the block."""
        parts, tiles, chunks = [], 0, 0
        for size, count in self.blocks.chunks:

            def chunk(n: Expr, size: int = size, tiles: int = tiles, chunks: int = chunks) -> Stmt:
                return self._summed(
                    data, products, point, Chunk(n * size + tiles, size, n + chunks)
                )

            parts.append(loop(count, chunk, name="chunk"))
            tiles, chunks = tiles + size * count, chunks + count
        return sequence(parts)

    def _summed(self, data: Buffer, products: Buffer, point: Point, chunk: Chunk) -> Stmt:
        """The products for some tiles, summed in registers."""
        blocks, lanes = self.blocks, self.blocks.lanes
        count = chunk.size * point.vectors
        sums = scratch(count * lanes, "float32", "sums", "local")
        first = point.number * blocks.data_plane + chunk.tile * lanes
        target = point.number * point.plane + chunk.tile * (point.vectors * lanes)

        def place(number: int) -> Expr:
            return ramp(integer(number * lanes), lanes)

        def channel(c: Expr) -> Stmt:
            lines = Lines(lanes)
            start = point.weights + c * (point.vectors * lanes)
            factors = [lines.read(self.weights, start + v * lanes) for v in range(point.vectors)]
            lines.statements += self._fetched(point, chunk, c)
            block, lane = tirx.floordiv(c, lanes), tirx.floormod(c, lanes)
            here = first + block * (blocks.tiles * lanes) + lane
            for tile in range(chunk.size):
                value = lines.named(spread(load(data, here + tile * lanes), lanes))
                for v, factor in enumerate(factors):
                    index = place(tile * point.vectors + v)
                    lines.statements.append(store(sums, load(sums, index) + value * factor, index))
            return sequence(lines.statements)

        zero = spread(tirx.FloatImm("float32", 0.0), lanes)
        begin = [store(sums, zero, place(n)) for n in range(count)]
        end = [
            store(products, load(sums, place(n)), ramp(target + n * lanes, lanes))
            for n in range(count)
        ]
        summed = loop(blocks.channels, channel, name="channel")
        return scoped([sums], sequence([*begin, summed, *end]), "registers")

    def _fetched(self, point: Point, chunk: Chunk, channel: Expr) -> list[Stmt]:
        """
        Fetch weights of the next point into the cache, in each step a few vectors.

        The chunks of a point read the same weights, so only the first one waits for memory. All of
        them fetch, and memory is never idle.
        """
        blocks = self.blocks
        width = point.vectors * blocks.lanes
        if blocks.channels * width * 4 > FETCHED_BYTES:
            return []
        size, steps = blocks.channels * width, sum(count for _, count in blocks.chunks)
        step = chunk.number * blocks.channels + channel
        return prefetched_share(
            self.weights, point.weights + size, size, step, steps * blocks.channels, blocks.lanes
        )

    def _results(
        self,
        products: Buffer,
        plane: int,
        number: Expr,
        width: int,
        place: Place,
        k: Expr,
        count: int,
    ) -> Stmt:
        """
        Transform back the products of one vector of filters, apply the epilogue and store.

        A tile at the right edge writes past the end of its rows, where the next rows begin. So the
        tiles are computed from right to left, and what is too much is overwritten.
        """
        blocks, tile, lanes = self.blocks, self.blocks.tile, self.blocks.lanes
        columns, pitch = blocks.columns, self.form.width
        size = blocks.rows * tile.down.outputs * pitch + max(tile.across.outputs, lanes)
        image = scratch(size * lanes, "float32", "image")

        def one(at: list[Expr]) -> Stmt:
            row, reverse = at
            column = (columns - 1) - reverse
            read = (row * columns + column) * width + number * lanes
            write = row * tile.down.outputs * pitch + column * tile.across.outputs
            return both.statement(
                held,
                lambda lines, i, j: lines.read(
                    products, read + (i * tile.across.inputs + j) * plane
                ),
                lambda lines, i, j, value: lines.write(
                    image, value, (write + i * pitch + j) * lanes
                ),
            )

        def filter_(f: Expr) -> Stmt:
            return vectorised(
                self._height * pitch, lanes, lambda p: self._finish(image, place, k, f, p)
            )

        def turned(number: Expr) -> Stmt:
            lines = Lines(lanes)
            square = (image, number * (lanes * lanes))
            turn(lines, square, square)
            return sequence(lines.statements)

        both = BothWays(tile.down.result, tile.across.result, lanes, by_rows=False)
        held = both.between()
        back = nest((blocks.rows, columns), one, "tile")
        turning = loop(-(-self._height * pitch // lanes), turned, name="square")
        last = loop(count, filter_, name="filter")
        return scoped([image, held], sequence([back, turning, last]), "image")

    def _finish(self, image: Buffer, place: Place, k: Expr, f: Expr, position: Expr) -> Stmt:
        stage = self.form.stage
        y, x = split_index(position, (self._height, self.form.width))
        lanes = self.blocks.lanes
        square, lane = split_index(position, (-(-self._height * self.form.width // lanes), lanes))
        held = load(image, (square * lanes + f) * lanes + lane)
        n, d = split_index(place.image, (self.form.batch // self.form.depth, self.form.depth))
        planes = [d] * (len(stage.spatial) - 4)
        where = [n, k + f, *planes, place.y + y, x]
        extents = shape(stage.buffer)
        at = [each for each, extent in zip(where, extents, strict=True) if extent > 1]
        return finish(self.context, self.group.epilogue, at, {stage.buffer: held})
