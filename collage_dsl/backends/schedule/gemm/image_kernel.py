"""
Loops of a convolution with packed weights: output channels in vectors, pixels as scalars.

The part of the image that some channels need is copied so that the pixels of each tap follow each
other. No lane is lost where an image has few pixels, since the lanes hold output channels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from tvm import tirx

from collage_dsl.backends.schedule.context import Context, finish
from collage_dsl.backends.schedule.expressions import Buffer, Expr, integer, substitute
from collage_dsl.backends.schedule.gemm.image import ImageProduct
from collage_dsl.backends.schedule.gemm.image_blocks import ImageBlocks
from collage_dsl.backends.schedule.gemm.panels import Panel
from collage_dsl.backends.schedule.gemm.registers import SumTile
from collage_dsl.backends.schedule.groups import Group
from collage_dsl.backends.schedule.loops import (
    Stmt,
    load,
    loop,
    nest,
    parallel,
    parallel_nest,
    prefetched_share,
    scoped,
    scratch,
    sequence,
    split_index,
    store,
    unrolled,
    vectorised,
)
from collage_dsl.backends.schedule.packing import Packed, Source, Window, source_of
from collage_dsl.backends.schedule.sliding import written_at
from collage_dsl.backends.schedule.stages import extents


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """The place of a strip: the batch indices, the group, and its number."""

    where: dict[tirx.Var, Expr]
    group: Expr
    strip: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Buffers:
    """The packed image of a part, its pixels by tap, and the sums of a strip."""

    image: Buffer
    pixels: Buffer
    sums: Buffer


class ImageKernel:
    """The loops of one group whose anchor is a convolution with packed weights."""

    dtype = "float32"  # of the image, its pixels and the sums

    def __init__(
        self,
        form: ImageProduct,
        blocks: ImageBlocks,
        packed: Buffer,
        group: Group,
        context: Context,
    ) -> None:
        self.form, self.blocks, self.packed = form, blocks, packed
        self.group, self.context = group, context
        self.lanes = context.machine.lanes
        self.panels = blocks.filters.panels
        self.inner = self.panels.inner
        self.y, self.x = form.window.y, form.window.x
        self.strip = blocks.strip
        self.tiles = -(-self.strip // blocks.tile)
        self.channels = self.inner // form.taps

    @cached_property
    def copies(self) -> int:
        """The pixels of a row of the image, in full vectors."""
        return -(-self.form.width // self.lanes) * self.lanes

    @cached_property
    def pitch(self) -> int:
        """The distance between the copied pixels of two inner indexes."""
        after_last_row = (self.blocks.rows - 1) * self.form.width + self.copies
        needed = max(self.tiles * self.blocks.tile, after_last_row, self.lanes)
        vectors = -(-needed // self.lanes)
        return (vectors | 1) * self.lanes

    @cached_property
    def image(self) -> Packed:
        """The part of the image that a strip reads, with its padding."""
        x = _unslid(self.x, self.form.width)
        y = self.y and _unslid(self.y, self.form.height)
        if y and self.blocks.strips > 1:
            y = y.anywhere()
        height = _reached(self.y, self.blocks.rows) if self.y else 1
        return Packed(y, x, self.channels, height, x.axis.extent, self.lanes)

    def statement(self) -> Stmt:
        """The whole computation. Cores share the strips, or the work inside if these are few."""
        form = self.form
        counts = (*extents(form.window.batch), self.blocks.strips)
        total, cores = prod(counts), self.context.machine.cores
        inside = total < 4 * cores and total % cores != 0

        def task(index: list[Expr]) -> Stmt:
            *at, strip = index
            where = {axis.var: i for axis, i in zip(form.window.batch, at, strict=True)}
            group: Expr = integer(0)
            for axis in form.groups:
                group = group * axis.extent + where[axis.var]
            place = Place(form.fixed | where, group, strip)
            return self._strip(place, cores if inside else 1)

        return parallel_nest(counts, 1 if inside else cores, task)

    def _strip(self, place: Place, cores: int) -> Stmt:
        """Multiply one part of the channels after another, then store the results."""
        image = scratch(self._image_size, self.dtype, "image")
        pixels = scratch(self._pixels_size, self.dtype, "pixels")
        buffers = Buffers(image, pixels, self._sums())
        parts = loop(
            self.blocks.filters.parts,
            lambda part: self._part(place, buffers, part, cores),
            name="part",
        )
        if not self._resumed:
            return scoped([image, pixels], parts, "strip")
        body = sequence([self._blank(buffers.sums), parts, self._finish(place, buffers, cores)])
        return scoped([image, pixels, buffers.sums], body, "strip")

    @property
    def _resumed(self) -> bool:
        """Whether the sums of all panels wait for the next part of the channels."""
        return self.blocks.filters.parts > 1

    def _sums(self) -> Buffer:
        columns = -(-self.panels.columns // self.lanes) * self.lanes
        width = columns if self._resumed else self.panels.width
        return scratch(self.tiles * self.blocks.tile * width, self.dtype, "sums")

    def _blank(self, sums: Buffer) -> Stmt:
        init, size = self.form.stage.init, int(sums.shape[0])
        return vectorised(size, self.lanes, lambda e: store(sums, init, e))

    def _finish(self, place: Place, buffers: Buffers, cores: int) -> Stmt:
        return self.panels.each(lambda panel: self._done(place, buffers, panel), cores)

    def _part(self, place: Place, buffers: Buffers, part: Expr, cores: int) -> Stmt:
        """Multiply all tiles of a strip with the weights of some channels."""
        if self._in_order:
            pixels = [self._copied(place, buffers, part, cores)]
        else:
            pixels = self._by_taps(place, buffers, part, cores)
        panels = self.panels.each(lambda panel: self._panel(place, buffers, part, panel), cores)
        return sequence([*pixels, *self._before_panels(buffers), panels])

    @property
    def _image_size(self) -> int:
        """The elements of the buffer for the image."""
        return self.image.size + self.copies * self.x.stride

    @property
    def _pixels_size(self) -> int:
        """The elements of the buffer for pixels by tap."""
        return self.inner * self.pitch + self._after_pixels

    @property
    def _after_pixels(self) -> int:
        """The elements that the buffer for pixels has after these."""
        return 0

    def _before_panels(self, buffers: Buffers) -> list[Stmt]:
        """What is computed from the pixels of a strip before they are multiplied."""
        return []

    @property
    def _in_order(self) -> bool:
        """Whether a pixel of the result needs that pixel of the image alone."""
        windows = [each for each in (self.y, self.x) if each]
        source = self._source()
        return self.form.taps == 1 and all(
            (each.stride, each.base) == (1, 0)
            and source.lower[each.dimension] == 0
            and source.upper[each.dimension] == each.axis.extent
            for each in windows
        )

    def _indices(self, place: Place, part: Expr, channel: Expr) -> list[Expr]:
        """Where a channel of the image is, at its first pixel."""
        window = self.form.window
        first = part * self.channels + channel
        parts = split_index(first, extents(window.channels))
        at = place.where | {a.var: p for a, p in zip(window.channels, parts, strict=True)}
        return [substitute(index, at) for index in window.moving.indices]

    def _source(self) -> Source:
        slid = [each.dimension for each in (self.y, self.x) if each]
        return source_of(self.form.window.moving.source, self.context.inlined, slid)

    def _copied(self, place: Place, buffers: Buffers, part: Expr, cores: int) -> Stmt:
        """Copy the pixels of a strip as they are."""
        source = self._source()

        def copy(channel: Expr, pixel: Expr) -> Stmt:
            at = self._indices(place, part, channel)
            y, x = self._pixel(place, pixel)
            at[self.x.dimension] = x
            if self.y:
                at[self.y.dimension] = y
            return store(buffers.pixels, source.value(at), self._at(channel, pixel))

        def channels(count: int) -> Stmt:
            return parallel(
                self.channels,
                cores,
                lambda c: self._each_pixel(count, lambda pixel: copy(c, pixel)),
            )

        return self._for_pixels(place.strip, channels)

    def _each_pixel(self, count: int, body: Callable[[Expr], Stmt]) -> Stmt:
        """`body` for each of the pixels: in vectors, if these follow each other in `_at` too."""
        tile = self.blocks.tile
        if not self._by_tiles or tile % self.lanes == 0:
            return vectorised(count, self.lanes, body)
        full, rest = divmod(count, tile)

        def pixels(first: Expr, number: int) -> Stmt:
            return unrolled(number, lambda pixel: body(first + pixel))

        parts = [loop(full, lambda t: pixels(t * tile, tile), name="tile")] if full else []
        return sequence([*parts, pixels(integer(full * tile), rest)] if rest else parts)

    @property
    def _by_tiles(self) -> bool:
        """Whether the copied pixels of a tile follow each other for all inner indexes."""
        return self._in_order and self.context.machine.has_few_registers

    def _at(self, inner: Expr, pixel: Expr) -> Expr:
        """Where the copied pixels have one of a strip, for an inner index."""
        if not self._by_tiles:
            return inner * self.pitch + pixel
        width = self.blocks.tile
        tile, place = split_index(pixel, (self.tiles, width))
        return (tile * self.inner + inner) * width + place

    def _fill(self, place: Place, image: Buffer, part: Expr) -> Stmt:
        """Copy the channels of a part with their padding."""
        first = place.strip * (self.blocks.rows * (self.y.stride if self.y else 1))
        return self.image.fill(
            image,
            self._source(),
            lambda channel: self._indices(place, part, channel),
            first,
            integer(0),
        )

    def _by_taps(self, place: Place, buffers: Buffers, part: Expr, cores: int) -> list[Stmt]:
        """Copy the pixels that each tap reads, without gaps between rows."""
        form, image = self.form, self.image

        def tap(channel: Expr, number: Expr) -> Stmt:
            taps = split_index(number, extents(form.window.taps))
            at = {axis.var: t for axis, t in zip(form.window.taps, taps, strict=True)}
            start = channel * image.plane + _offset(self.x, at)
            if self.y:
                start = start + _offset(self.y, at) * image.pitch
            return self._copied_tap(buffers, start, channel * form.taps + number)

        copied = parallel(
            self.channels, cores, lambda c: loop(form.taps, lambda t: tap(c, t), name="tap")
        )
        return [self._fill(place, buffers.image, part), copied]

    def _copied_tap(self, buffers: Buffers, start: Expr, inner: Expr) -> Stmt:
        """
        Copy the pixels of a strip for one inner index. The first is at `start` in the image.

        A row is copied in full vectors. The next row overwrites what is too much.
        """

        def copy(y: Expr, chunk: Expr) -> Stmt:
            value = self._read(buffers, start, y, chunk * self.lanes)
            to = inner * self.pitch + y * self.form.width + chunk * self.lanes
            return store(buffers.pixels, value, tirx.Ramp(to, integer(1), self.lanes))

        return nest((self.blocks.rows, self.copies // self.lanes), lambda k: copy(*k), name="copy")

    def _read(self, buffers: Buffers, start: Expr, y: Expr, x: Expr) -> Expr:
        """A vector of the copied image: the pixels of a row of the strip, from a column."""
        step = (self.y.stride if self.y else 1) * self.image.pitch
        return every(buffers.image, start + y * step + x * self.x.stride, self.x.stride, self.lanes)

    def _panel(self, place: Place, buffers: Buffers, part: Expr, panel: Panel) -> Stmt:
        """Multiply all tiles of a strip with one panel."""
        if self._resumed:
            return self._tiles(place, buffers, part, panel)
        here = replace(buffers, sums=self._sums())
        tiles = self._tiles(place, here, part, panel)
        done = self._done(place, here, panel)
        return scoped([here.sums], sequence([tiles, done]), "panel")

    def _tiles(self, place: Place, buffers: Buffers, part: Expr, panel: Panel) -> Stmt:
        return loop(
            self.tiles, lambda tile: self._registers(place, buffers, part, panel, tile), name="tile"
        )

    def _registers(
        self, place: Place, buffers: Buffers, part: Expr, panel: Panel, tile: Expr
    ) -> Stmt:
        """Sum one tile in registers over the channels of a part."""
        resumed = self._resumed
        first = tile * self.blocks.tile

        def pixel(i: Expr, inner: Expr) -> Expr:
            return load(buffers.pixels, self._at(inner, first) + i)

        def weight(inner: Expr, column: Expr) -> Expr:
            return load(self.packed, self._weight(place, part, panel, inner, column))

        def sums(i: Expr, column: Expr) -> Expr:
            return self._sum(panel, first + i, column)

        def begin(i: Expr, column: Expr) -> Expr:
            return load(buffers.sums, sums(i, column)) if resumed else self.form.stage.init

        def out(i: Expr, column: Expr, value: Expr) -> Stmt:
            return store(buffers.sums, value, sums(i, column))

        def ahead(inner: Expr) -> list[Stmt]:
            return self._fetched(place, part, panel, tile, inner)

        registers = SumTile(self.blocks.tile, panel.width, self.lanes)
        return registers.multiplied(self.inner, pixel, weight, begin, out, ahead)

    def _weight(self, place: Place, part: Expr, panel: Panel, inner: Expr, column: Expr) -> Expr:
        """Where the packed weights have a column of a panel."""
        first = self.blocks.filters.first(place.group, part)
        return first + self.panels.place(panel, inner, column)

    def _fetched(
        self, place: Place, part: Expr, panel: Panel, tile: Expr, inner: Expr
    ) -> list[Stmt]:
        """Fetch weights of the next panel into the cache, a few in each step of a tile."""
        after = self._weight(place, part, panel, integer(self.inner), integer(0))
        size, step = self.inner * panel.width, tile * self.inner + inner
        steps = self.tiles * self.inner
        return prefetched_share(self.packed, after, size, step, steps, self.lanes)

    def _sum(self, panel: Panel, row: Expr, column: Expr) -> Expr:
        """Where the sum of a pixel and a column of a panel is kept."""
        start: Expr = integer(0)
        if self._resumed:
            start = panel.column * (self.tiles * self.blocks.tile)
        return start + row * panel.width + column

    def _done(self, place: Place, buffers: Buffers, panel: Panel) -> Stmt:
        """Finish the columns of a panel, each along the pixels."""

        def column(number: Expr, count: int) -> Stmt:
            def element(pixel: Expr) -> Stmt:
                value = self._value(buffers, panel, pixel, number)
                return self._result(place, pixel, panel.column + number, value)

            return vectorised(count, self.lanes, element)

        def columns(count: int) -> Stmt:
            return loop(panel.used, lambda number: column(number, count), name="column")

        return self._for_pixels(place.strip, columns)

    def _value(self, buffers: Buffers, panel: Panel, pixel: Expr, number: Expr) -> Expr:
        """The sum of a pixel and a column of a panel."""
        return load(buffers.sums, self._sum(panel, pixel, number))

    def _for_pixels(self, strip: Expr, body: Callable[[int], Stmt]) -> Stmt:
        """`body` for the number of pixels of a strip."""
        if self._last == self.strip:
            return body(self.strip)
        return tirx.IfThenElse(strip < self.blocks.strips - 1, body(self.strip), body(self._last))

    @property
    def _last(self) -> int:
        """The number of pixels of the last strip."""
        return self.form.height * self.form.width - (self.blocks.strips - 1) * self.strip

    def _pixel(self, place: Place, pixel: Expr) -> list[Expr]:
        """The row and the column of a pixel of a strip."""
        number = place.strip * self.strip + pixel
        if self.form.height == 1:
            return [integer(0), number]
        return split_index(number, (self.form.height, self.form.width))

    def _result(self, place: Place, pixel: Expr, column: Expr, value: Expr) -> Stmt:
        form = self.form
        y, x = self._pixel(place, pixel)
        at = place.where | {form.column.var: column, form.window.x.axis.var: x}
        if form.window.y:
            at[form.window.y.axis.var] = y
        index = written_at(form.window, at)
        return finish(self.context, self.group.epilogue, index, {form.stage.buffer: value})


def every(buffer: Buffer, first: Expr, stride: int, lanes: int) -> Expr:
    """
    A vector of the elements `stride` apart, from `first`.

    LLVM reads single elements for a stride of two. Two vectors and a shuffle are faster.
    """
    if stride != 2:
        return load(buffer, tirx.Ramp(first, integer(stride), lanes))
    halves = [load(buffer, tirx.Ramp(first + h * lanes, integer(1), lanes)) for h in (0, 1)]
    return tirx.Shuffle(halves, [2 * lane for lane in range(lanes)])


def _reached(window: Window, count: int) -> int:
    """The number of elements from the first to the last that `count` outputs read."""
    return (count - 1) * window.stride + max(window.offsets) + 1


def _unslid(window: Window, count: int) -> Window:
    """The window that reads each of these elements once."""
    axis = replace(window.axis, extent=_reached(window, count))
    return Window(axis, window.dimension, 1, window.base, ())


def _offset(window: Window, taps: dict[tirx.Var, Expr]) -> Expr:
    """The distance that taps add to what an output reads."""
    offset: Expr = integer(0)
    for axis, dilation in window.taps:
        offset = offset + taps[axis.var] * dilation
    return offset
