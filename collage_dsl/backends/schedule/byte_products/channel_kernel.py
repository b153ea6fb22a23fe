"""
Loops of a convolution of bytes with packed weights: output channels in vectors, a word of channels
of a pixel at a time.
"""

from __future__ import annotations

from tvm import tirx

from collage_dsl.backends.schedule.byte_products.channels import image_of, ones_place, total_place
from collage_dsl.backends.schedule.byte_products.image import ByteImage, in_words
from collage_dsl.backends.schedule.byte_products.tile import DotTile, added, whole
from collage_dsl.backends.schedule.byte_products.totals import Totals
from collage_dsl.backends.schedule.context import Context
from collage_dsl.backends.schedule.expressions import (
    Buffer,
    Expr,
    constant,
    integer,
    substitute,
)
from collage_dsl.backends.schedule.gemm.image_blocks import ImageBlocks
from collage_dsl.backends.schedule.gemm.image_kernel import Buffers, ImageKernel, Place
from collage_dsl.backends.schedule.gemm.panels import Panel
from collage_dsl.backends.schedule.groups import Group
from collage_dsl.backends.schedule.loops import (
    Stmt,
    load,
    loop,
    scoped,
    scratch,
    sequence,
    store,
)
from collage_dsl.backends.schedule.packing import Source


class ByteChannelKernel(ImageKernel):
    """The loops of one group whose anchor is a convolution of bytes with packed weights."""

    dtype = "int32"

    def __init__(
        self, form: ByteImage, blocks: ImageBlocks, packed: Buffer, group: Group, context: Context
    ) -> None:
        super().__init__(image_of(form), blocks, packed, group, context)
        self.bytes = form

    def _source(self) -> Source:
        return in_words(super()._source(), self.bytes)

    @property
    def _after_pixels(self) -> int:
        """After the pixels come the sums of the bytes that each reads, if they are needed."""
        return 0 if constant(self.bytes.weight.signed_zero) == 0 else self.pitch

    @property
    def _by_tiles(self) -> bool:
        """Not where `_before_panels` sums vectors of pixels, which may be longer than a tile."""
        return super()._by_tiles and not self._after_pixels

    def _before_panels(self, buffers: Buffers) -> list[Stmt]:
        """Sum what each pixel reads, by the filter of ones."""
        if not self._after_pixels:
            return []
        lanes = self.lanes
        total = scratch(lanes, "int32", "total", "local")
        held = whole(integer(0), lanes)

        def summed(first: Expr) -> Stmt:
            def step(inner: Expr) -> Stmt:
                pixels = load(buffers.pixels, whole(inner * self.pitch + first, lanes))
                ones = tirx.Broadcast(load(self.packed, ones_place(self.panels, inner)), lanes)
                return store(total, added(self.bytes.dots, load(total, held), pixels, ones), held)

            begin = store(total, tirx.Broadcast(tirx.IntImm("int32", 0), lanes), held)
            done = store(buffers.pixels, load(total, held), whole(self._total(first), lanes))
            steps = loop(self.inner, step, name="inner")
            return scoped([total], sequence([begin, steps, done]), "total")

        return [loop(self.pitch // lanes, lambda number: summed(number * lanes), name="vector")]

    def _registers(
        self, place: Place, buffers: Buffers, part: Expr, panel: Panel, tile: Expr
    ) -> Stmt:
        first = tile * self.blocks.tile

        def pixel(i: Expr, inner: Expr) -> Expr:
            return load(buffers.pixels, self._at(inner, first) + i)

        def weight(inner: Expr, column: Expr) -> Expr:
            return load(self.packed, whole(self.panels.place(panel, inner, column), self.lanes))

        def out(i: Expr, column: Expr, value: Expr) -> Stmt:
            return store(
                buffers.sums, value, whole(self._sum(panel, first + i, column), self.lanes)
            )

        def ahead(inner: Expr) -> list[Stmt]:
            return self._fetched(place, part, panel, tile, inner)

        registers = DotTile(self.blocks.tile, panel.width, self.lanes, self.bytes.dots)
        return registers.multiplied(self.inner, pixel, weight, out, ahead)

    def _value(self, buffers: Buffers, panel: Panel, pixel: Expr, number: Expr) -> Expr:
        """A sum, corrected by the zero points."""
        form, column = self.bytes, panel.column + number
        weight = load(self.packed, total_place(self.panels, column))
        operand = load(buffers.pixels, self._total(pixel)) if self._after_pixels else None
        return Totals(weight, operand, form.terms).corrected(
            super()._value(buffers, panel, pixel, number),
            form.operand.unsigned_zero,
            substitute(form.weight.signed_zero, {form.column.var: column}),
        )

    def _total(self, pixel: Expr) -> Expr:
        """Where the sum of what a pixel reads is."""
        return self.inner * self.pitch + pixel
