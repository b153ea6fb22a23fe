"""
Loops of a convolution of images of any sides, with packed weights: pixels in vectors, as in
`PixelKernel`.

A strip has a known number of pixels, and begins and ends inside of a row. For each channel, what
each tap reads is copied to one line, row by row: each row in full vectors, so that the next row
overwrites what is too much. The lines then go to the tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import tirx
from tvm.tirx import ForKind

from collage_dsl.backends.schedule.expressions import (
    Buffer,
    Expr,
    constant,
    integer,
    variables,
)
from collage_dsl.backends.schedule.functions import vectorisable
from collage_dsl.backends.schedule.gemm.image_kernel import Buffers, Place
from collage_dsl.backends.schedule.gemm.pixel_kernel import PixelKernel
from collage_dsl.backends.schedule.loops import (
    Stmt,
    load,
    loop,
    nest,
    scoped,
    scratch,
    sequence,
    store,
    vector,
)
from collage_dsl.backends.schedule.packing import Source, Window
from collage_dsl.backends.schedule.reduction import where_exists
from collage_dsl.backends.schedule.stages import extents


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """
    A row of the image of which a strip has the pixels from `begin` to `end`, and where a line has
    the first pixel of the row.
    """

    y: Expr
    begin: Expr
    end: Expr
    place: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Inside:
    """
    The pixels of a row for which a column of taps reads within the bounds of the image: those from
    `begin` to `end`, and as far as `whole` in full vectors. For pixel 0 it reads at `first`.
    """

    first: Expr
    begin: Expr
    whole: Expr
    end: Expr


class FlatKernel(PixelKernel):
    """The loops of one group whose anchor is a convolution of images of any sides."""

    @property
    def _line(self) -> int:
        """The elements of a line."""
        return self.strip + self.lanes

    @property
    def _image_size(self) -> int:
        return self.form.taps * self._line

    @property
    def _pixels_size(self) -> int:
        return self.inner * self.strip

    def _strip(self, place: Place, cores: int) -> Stmt:
        names = Names()
        where = {axis: names.of(index) for axis, index in place.where.items()}
        named = Place(where, names.of(place.group), names.of(place.strip))
        return names.before(super()._strip(named, cores))

    def _by_taps(self, place: Place, buffers: Buffers, part: Expr, cores: int) -> list[Stmt]:
        """Copy the pixels that each tap reads, one channel after the other."""
        names = Names()
        height, width = integer(self.form.height), integer(self.form.width)
        first = names.of(place.strip * self.strip)
        after = names.of(tirx.min(first + self.strip, height * width))
        top = names.of(tirx.truncdiv(first, width))
        rows = names.of(tirx.truncdiv(after - 1, width) - top + 1)

        def channel(number: Expr) -> Stmt:
            at = self._indices(place, part, number)

            def row(n: Expr) -> Stmt:
                names = Names()
                y = names.of(top + n)
                begin = names.of(tirx.max(first - y * width, integer(0)))
                end = names.of(tirx.min(width, after - y * width))
                row = Row(y, begin, end, names.of(y * width - first))
                return names.before(self._copied_row(buffers, at, row))

            copied = _each(integer(0), rows, 1, row, "row")
            return sequence([copied, self._to_tiles(buffers, number)])

        return [names.before(loop(self.channels, channel, name="channel"))]

    def _copied_row(self, buffers: Buffers, at: list[Expr], row: Row) -> Stmt:
        """Copy what all taps read for the pixels of a row, one column of taps after the other."""
        down = _sides(self.y) if self.y else ()
        source, lanes = self._source(), self.lanes

        def column(right: list[Expr]) -> Stmt:
            names = Names()
            first = names.of(_reached(self.x, integer(0), right))
            lower, upper = self._within(self.x, source, first)
            begin = names.of(tirx.min(tirx.max(lower, row.begin), row.end))
            end = names.of(tirx.max(tirx.min(upper, row.end), begin))
            whole = tirx.truncdiv(end - begin, integer(lanes)) * lanes + begin
            inside = Inside(first, begin, names.of(whole), end)

            def tap(below: list[Expr]) -> Stmt:
                number = _joined([*below, *right], extents(self.form.window.taps))
                line = number * self._line + row.place
                index = list(at)
                index[self.x.dimension] = inside.first
                if self.y is None:
                    return self._copied_line(buffers, index, row, inside, line)
                index[self.y.dimension] = _reached(self.y, row.y, below)
                copied = self._copied_line(buffers, index, row, inside, line)
                blank = self._filled(buffers, line, row.begin, row.end)
                low, high = self._within(self.y, source, _reached(self.y, integer(0), below))
                return tirx.IfThenElse(tirx.And(low <= row.y, row.y < high), copied, blank)

            return names.before(nest(down, tap, "down"))

        return nest(_sides(self.x), column, "right")

    def _copied_line(
        self, buffers: Buffers, at: list[Expr], row: Row, inside: Inside, line: Expr
    ) -> Stmt:
        """
        Copy what a tap reads for the pixels of a row, and what is beyond the bounds of the image.
        The tap reads at `at` for pixel 0, and `line` is the place of that in the lines.
        """
        source, lanes = self._source(), self.lanes

        def copied(x: Expr, used: Expr = None) -> Stmt:
            def one(lane: Expr) -> Stmt:
                index = list(at)
                index[self.x.dimension] = index[self.x.dimension] + (x + lane) * self.x.stride
                value = source.value(index)
                if used is not None:
                    own = self.form.stage.buffer
                    value = where_exists(value, lane < used, variables(lane), own)
                return store(buffers.image, vectorisable(value), line + x + lane)

            return vector(lanes, one)

        # Each vector may write beyond the end. What is there is written after it.
        rest = copied(inside.whole, inside.end - inside.whole)
        return sequence(
            [
                self._filled(buffers, line, row.begin, inside.begin),
                _each(inside.begin, inside.whole, lanes, copied, "x"),
                tirx.IfThenElse(inside.whole < inside.end, rest, None),
                self._filled(buffers, line, inside.end, row.end),
            ]
        )

    def _filled(self, buffers: Buffers, line: Expr, begin: Expr, end: Expr) -> Stmt:
        """Write what is beyond the bounds of the image for some pixels."""
        lanes, fill = self.lanes, self._source().fill

        def filled(x: Expr) -> Stmt:
            return vector(lanes, lambda lane: store(buffers.image, fill, line + x + lane))

        return _each(begin, end, lanes, filled, "x")

    def _within(self, window: Window, source: Source, first: Expr) -> tuple[Expr, Expr]:
        """
        From which element of the output on, and before which, a tap reads within the bounds of the
        image. It reads at `first` for the first element.
        """
        bounds = source.lower[window.dimension], source.upper[window.dimension]
        low, high = (-tirx.floordiv(first - bound, window.stride) for bound in bounds)
        return low, high

    def _to_tiles(self, buffers: Buffers, channel: Expr) -> Stmt:
        """Copy the lines of a channel to the tiles."""
        lanes = self.lanes

        def vectors(tap: Expr, number: Expr) -> Stmt:
            first = tap * self._line + number * lanes
            value = load(buffers.image, tirx.Ramp(first, integer(1), lanes))
            to = self._at(channel * self.form.taps + tap, number * lanes)
            return store(buffers.pixels, value, tirx.Ramp(to, integer(1), lanes))

        return loop(
            self.form.taps,
            lambda t: loop(self.strip // lanes, lambda n: vectors(t, n), name="vector"),
            name="tap",
        )


class Names:
    """
    Values that are computed once. They are kept in local buffers, which become registers: TVM would
    put a `Bind` into each index that uses it, and take seconds to simplify these, or find that it
    divides by zero.
    """

    def __init__(self) -> None:
        self.kept: list[Buffer] = []
        self.stores: list[Stmt] = []

    def of(self, value: Expr) -> Expr:
        """A name for a value of 64 bits, if it is no number."""
        if constant(value) is not None:
            return value
        kept = scratch(1, "int64", "at", "local")
        self.kept.append(kept)
        self.stores.append(store(kept, value, integer(0)))
        return load(kept, integer(0))

    def before(self, body: Stmt) -> Stmt:
        """`body` after the values have their names."""
        if not self.kept:
            return body
        return scoped(self.kept, sequence([*self.stores, body]), "named")


def _each(begin: Expr, end: Expr, step: int, body: Callable[[Expr], Stmt], name: str) -> Stmt:
    """`body` at every `step`-th index from `begin` to `end`, which is not below `begin`."""
    number = tirx.Var(name, "int64")
    count = tirx.truncdiv(end - begin + (step - 1), integer(step)) if step > 1 else end - begin
    return tirx.For(number, integer(0), count, ForKind.SERIAL, body(begin + number * step))


def _sides(window: Window) -> tuple[int, ...]:
    return extents([axis for axis, _ in window.taps])


def _joined(index: Sequence[Expr], sides: Sequence[int]) -> Expr:
    """The row-major position of an index."""
    place: Expr = integer(0)
    for part, side in zip(index, sides, strict=True):
        place = place * side + part
    return place


def _reached(window: Window, number: Expr, taps: Sequence[Expr]) -> Expr:
    """Where a tap reads for an element of the output."""
    place = number * window.stride + window.base
    for tap, (_, dilation) in zip(taps, window.taps, strict=True):
        place = place + tap * dilation
    return place
