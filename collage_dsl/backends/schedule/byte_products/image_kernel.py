"""
Loops of a convolution of bytes with packed weights: pixels in vectors, a word of channels of each.

The image is copied as words of channels, which a broadcast word of a filter is multiplied with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvm import tirx

from collage_dsl.backends.schedule.byte_products.image import ByteImage, in_words
from collage_dsl.backends.schedule.byte_products.tile import added, whole
from collage_dsl.backends.schedule.byte_products.totals import Totals
from collage_dsl.backends.schedule.context import Context
from collage_dsl.backends.schedule.contraction import Place, SlidingKernel, Sums
from collage_dsl.backends.schedule.expressions import (
    Buffer,
    Expr,
    constant,
    integer,
    substitute,
)
from collage_dsl.backends.schedule.groups import Group
from collage_dsl.backends.schedule.loops import Stmt, load, scratch, split_index, store
from collage_dsl.backends.schedule.machine import Machine
from collage_dsl.backends.schedule.packing import Packed, Source
from collage_dsl.backends.schedule.stages import extents
from collage_dsl.backends.schedule.tiling import RegisterTile


@dataclass(frozen=True, slots=True, eq=False)
class BytePlace(Place):
    """The place of a tile, and the sums of what each pixel reads, rows of them `pitch` apart."""

    totals: Buffer | None
    pitch: int

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return () if self.totals is None else (self.totals,)


class ByteImageKernel(SlidingKernel):
    """The loops of one group whose anchor is a convolution of bytes with packed weights."""

    dtype = "int32"
    cut = False

    def __init__(self, form: ByteImage, packed: Buffer, group: Group, context: Context) -> None:
        self.bytes, self.filters = form, packed
        super().__init__(form.window, group, context)

    def _steps(self) -> tuple[int, int]:
        return self.bytes.words, self.bytes.steps + 1

    @property
    def _machine(self) -> Machine:
        """Two instructions need a register for the products before they are added."""
        machine = super()._machine
        taken = 0 if self.bytes.dots.terms == 4 else 1
        return replace(machine, registers=machine.registers - taken)

    def _place(self, tile: Packed, where: dict[tirx.Var, Expr], corner: Sequence[Expr]) -> Place:
        totals = scratch(self._room(1) * tile.vectors * tile.lanes, "int32", "totals")
        is_needed = constant(self.bytes.weight.signed_zero) != 0
        y, x = corner
        return BytePlace(where, integer(0), y, x, totals if is_needed else None, tile.pitch)

    def _before_rows(self, tile: Packed, packed: Buffer, at: Place) -> list[Stmt]:
        """Sum what each pixel reads, by the filter of ones."""
        assert isinstance(at, BytePlace)
        if at.totals is None:
            return []
        sums = Sums(at.totals, integer(0), resumed=False)
        return [self._columns(tile, packed, sums, at, *self._ones(tile))]

    def _ones(self, tile: Packed) -> tuple[Expr, RegisterTile]:
        """The number of the filter of ones, and how it is multiplied."""
        return integer(self.rows), RegisterTile(1, min(8, tile.vectors))

    def _channel(self, number: Expr) -> dict[tirx.Var, Expr]:
        return {self.bytes.channel.var: number}

    def _source(self) -> Source:
        return in_words(super()._source(), self.bytes)

    def _products(
        self,
        packed: tuple[Buffer, Expr],
        held: tuple[Buffer, RegisterTile],
        at: dict[tirx.Var, Expr],
        first: Expr,
    ) -> Stmt:
        (operand, origin), (sums, size) = packed, held
        lanes = self.context.machine.lanes

        def product(i: Expr, j: Expr) -> Stmt:
            place = whole(size.place(i, j, lanes), lanes)
            pixels = load(operand, whole(origin + j * lanes, lanes))
            filter_ = tirx.Broadcast(load(self.filters, self._step(at, first + i)), lanes)
            total = added(self.bytes.dots, load(sums, place), pixels, filter_)
            return store(sums, total, place)

        return size.each(product)

    def _step(self, at: dict[tirx.Var, Expr], row: Expr) -> Expr:
        """Where a word of a filter is."""
        place = at[self.bytes.channel.var]
        for axis in self.form.taps:
            place = place * axis.extent + at[axis.var]
        return row * (self.bytes.steps + 1) + place

    def _filter_total(self, row: Expr) -> Expr:
        """Where the sum of the bytes of a filter is."""
        return row * (self.bytes.steps + 1) + self.bytes.steps

    def _result(self, place: Place, row: Expr, at: tuple[Expr, Expr], held: Expr) -> Stmt:
        assert isinstance(place, BytePlace)
        form = self.bytes
        parts = split_index(row, extents(self.form.rows))
        where = {axis.var: part for axis, part in zip(self.form.rows, parts, strict=True)}
        weight = load(self.filters, self._filter_total(row))
        total = None if place.totals is None else load(place.totals, at[0] * place.pitch + at[1])
        right = Totals(weight, total, form.terms).corrected(
            held, form.operand.unsigned_zero, substitute(form.weight.signed_zero, where)
        )
        return super()._result(place, row, at, right)
