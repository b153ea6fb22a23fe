"""
A convolution of bytes with packed weights in registers that hold matrices: filters are rows, and
pixels columns.

Filters are packed by 16: a register of words of channels after the other, for each tap. After all
of them come the sums of the filters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tvm import tirx

from collage_dsl.backends.schedule.byte_products.image import ByteImage, filter_bytes, ones_of
from collage_dsl.backends.schedule.byte_products.image_kernel import ByteImageKernel
from collage_dsl.backends.schedule.byte_products.matrices import (
    COLUMNS_UNSIGNED,
    HEIGHT,
    MatrixTile,
    Place,
    allowed,
    steps_of,
)
from collage_dsl.backends.schedule.byte_products.panels import word_of
from collage_dsl.backends.schedule.context import Context
from collage_dsl.backends.schedule.contraction import Place as TilePlace
from collage_dsl.backends.schedule.contraction import Sums
from collage_dsl.backends.schedule.expressions import Buffer, Expr, constant, integer
from collage_dsl.backends.schedule.groups import Group
from collage_dsl.backends.schedule.loops import Stmt, load, loop, nest, sequence, store
from collage_dsl.backends.schedule.machine import Machine
from collage_dsl.backends.schedule.packing import Packed
from collage_dsl.backends.schedule.scheduled import preparing
from collage_dsl.backends.schedule.stages import extents
from collage_dsl.backends.schedule.tiling import RegisterTile

LEAST_WORDS = 4  # of the channels of a pixel: with fewer, most of each register is empty
TILE_CYCLES = 30.0  # to begin a register of sums and to store it


def image_of_matrices(form: ByteImage, machine: Machine) -> ByteImage | None:
    """The convolution with words that fill registers equally; None if vectors take less time."""
    if not machine.matrices or form.words < LEAST_WORDS:
        return None
    return replace(form, words=steps_of(form.words).total)


class MatrixFilters:
    """The packed filters, and the filter of ones after them if the sum of each pixel is needed."""

    def __init__(self, form: ByteImage) -> None:
        self.form, self.steps = form, steps_of(form.words)
        self.blocks = -(-form.column.extent // HEIGHT)
        self.has_ones = constant(form.weight.signed_zero) != 0

    @property
    def pitch(self) -> int:
        """The words of a filter."""
        return self.form.steps

    @property
    def ones(self) -> int:
        """The number of the filter of ones."""
        return self.blocks * HEIGHT

    @property
    def size(self) -> int:
        return self.total(integer(self.ones)).value

    def place(self, first: Expr, tap: Sequence[Expr], step: Expr) -> Expr:
        """Where the register is that begins with the filter `first`, the first of its block."""
        number = self.form.step(integer(0), *tap) * self.steps.count + step
        return first * self.pitch + number * (HEIGHT * self.steps.words)

    def total(self, filter_: Expr) -> Expr:
        """Where the sum of the bytes of a filter is."""
        return (self.blocks + self.has_ones) * HEIGHT * self.pitch + filter_

    def packing(self, packed: Buffer) -> Any:
        """The PrimFunc that packs weights: it takes them and writes `packed`."""
        form, count = self.form, self.form.column.extent
        taps, zero = extents(form.window.taps), tirx.IntImm("int32", 0)
        shape = (*taps, self.steps.count, HEIGHT, self.steps.words)

        def words(first: Expr, at: list[Expr]) -> Stmt:
            *tap, step, row, word = at
            there = self.place(first, tap, step) + row * self.steps.words + word
            filter_, number = first + row, step * self.steps.words + word
            bytes_ = filter_bytes(form, filter_, number, tap)
            total = self.total(filter_)
            summed = store(packed, sum(bytes_, load(packed, total)), total)
            full = sequence([summed, store(packed, word_of(bytes_), there)])
            if count % HEIGHT == 0:
                return full
            return tirx.IfThenElse(filter_ < count, full, store(packed, zero, there))

        def ones(at: list[Expr]) -> Stmt:
            *tap, step, row, word = at
            there = self.place(integer(self.ones), tap, step) + row * self.steps.words + word
            one = word_of(ones_of(form, step * self.steps.words + word))
            return store(packed, tirx.if_then_else(row < 1, one, zero), there)

        body = [
            loop(self.blocks * HEIGHT, lambda filter_: store(packed, zero, self.total(filter_))),
            loop(self.blocks, lambda block: nest(shape, lambda at: words(block * HEIGHT, at))),
        ]
        if self.has_ones:
            body.append(nest(shape, ones))
        return preparing(form.weights, packed, sequence(body))


class MatrixImageKernel(ByteImageKernel):
    """The loops of one group whose anchor is a convolution of bytes, by registers of matrices."""

    def __init__(
        self, filters: MatrixFilters, packed: Buffer, group: Group, context: Context
    ) -> None:
        self.filter_blocks = filters
        super().__init__(filters.form, packed, group, context)

    def statement(self) -> Stmt:
        return allowed(super().statement())

    def _tile_and_cycles(self, tile: Packed) -> tuple[RegisterTile, float]:
        sums = self.filter_blocks.blocks * tile.vectors
        products = sums * self.taps * self.filter_blocks.steps.count * HEIGHT
        size = RegisterTile(min(2 * HEIGHT, self.rows), min(2, tile.vectors))
        return size, products + sums * TILE_CYCLES

    def _room(self, rows: int) -> int:
        return -(-rows // HEIGHT) * HEIGHT

    def _in_order(self, tile: Packed) -> bool:
        return False

    def _ones(self, tile: Packed) -> tuple[Expr, RegisterTile]:
        return integer(self.filter_blocks.ones), RegisterTile(1, min(2, tile.vectors))

    def _filter_total(self, row: Expr) -> Expr:
        return self.filter_blocks.total(row)

    def _columns(
        self,
        tile: Packed,
        packed: Buffer,
        sums: Sums | None,
        at: TilePlace,
        first: Expr,
        size: RegisterTile,
    ) -> Stmt:
        computed = super()._columns(tile, packed, sums, at, first, size)
        return self._matrices(size).configured(computed)

    def _matrices(self, size: RegisterTile) -> MatrixTile:
        heights = (HEIGHT,) * (self._room(size.rows) // HEIGHT)
        return MatrixTile(heights, size.vectors, self.filter_blocks.steps.words, COLUMNS_UNSIGNED)

    def _registers(
        self,
        tile: Packed,
        packed: Buffer,
        sums: Sums | None,
        place: TilePlace,
        corner: tuple[Expr, Expr],
        size: RegisterTile,
        last: bool,
    ) -> Stmt:
        assert sums is not None
        (first, start), filters, words = corner, self.filter_blocks, self.filter_blocks.steps.words
        lanes, width = tile.lanes, tile.vectors * tile.lanes

        def row(i: int, at: list[Expr]) -> Place:
            *tap, step = at
            return self.filters, filters.place(first + i * HEIGHT, tap, step), words

        def column(j: int, at: list[Expr]) -> Place:
            *tap, step = at
            taps = {a.var: t for a, t in zip(self.form.taps, tap, strict=True)}
            origin = tile.position(step * words, taps) + (start + j) * lanes
            return packed, origin, tile.phases * tile.plane

        def out(i: int, j: int) -> Place:
            return sums.buffer, sums.start + i * HEIGHT * width + (start + j) * lanes, width

        steps = (*extents(self.form.taps), self.filter_blocks.steps.count)
        return self._matrices(size).multiplied(steps, row, column, out)
