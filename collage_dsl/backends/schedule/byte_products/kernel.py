"""
Loops of a product of bytes with packed weights: columns in vectors, a word of a row at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tvm import tirx

from collage_dsl.backends.schedule.byte_products.form import ByteProduct
from collage_dsl.backends.schedule.byte_products.matrices import (
    FEWEST_ROWS,
    HEIGHT,
    ROWS_UNSIGNED,
    MatrixTile,
    Place,
    Steps,
    allowed,
    heights_of,
    steps_of,
)
from collage_dsl.backends.schedule.byte_products.panels import (
    as_unsigned,
    is_narrow,
    rows_of_totals,
    total_of,
    widened,
)
from collage_dsl.backends.schedule.byte_products.tile import DotTile, row_total, whole
from collage_dsl.backends.schedule.byte_products.totals import Totals
from collage_dsl.backends.schedule.context import Context
from collage_dsl.backends.schedule.expressions import Buffer, Expr, constant, integer, substitute
from collage_dsl.backends.schedule.few_rows.dots import folded
from collage_dsl.backends.schedule.gemm.blocks import Blocks, row_tiles, tiles_and_vectors
from collage_dsl.backends.schedule.gemm.kernel import (
    FETCHING_ROWS,
    GemmKernel,
    Strip,
    Sums,
    pitch,
)
from collage_dsl.backends.schedule.gemm.panels import Panel, Panels
from collage_dsl.backends.schedule.groups import Group
from collage_dsl.backends.schedule.loops import (
    Stmt,
    load,
    loop,
    scoped,
    scratch,
    sequence,
    store,
    vector,
    vectorised,
)
from collage_dsl.backends.schedule.machine import Machine
from collage_dsl.backends.schedule.sizes import typical
from collage_dsl.backends.schedule.stages import extents


def byte_blocks(form: ByteProduct, machine: Machine) -> Blocks:
    """The blocks in which a machine computes a product of bytes."""
    product, depth = form.product, form.dots.words(form.product.inner.extent)
    if by_matrices(form, machine):
        depth = steps_of(depth).total
        tiles = row_tiles(product, machine, depth, 2 * HEIGHT)
        return Blocks(tiles, Panels(product.column.extent, depth + 1, machine.lanes, 2), depth)
    tiles, vectors = tiles_and_vectors(product, machine, depth)
    inner = depth + rows_of_totals(packed_dtype(form))
    return Blocks(tiles, Panels(product.column.extent, inner, machine.lanes, vectors), depth)


def packed_dtype(form: ByteProduct) -> str:
    """The type of packed weights: narrow words where so few rows take the time of reading them."""
    rows = typical(prod(extents(form.product.rows)))
    return "int16" if form.dots.terms == 2 and rows < FETCHING_ROWS else "int32"


def by_matrices(form: ByteProduct, machine: Machine) -> bool:
    """Whether registers that hold matrices have the sums."""
    return machine.matrices and typical(prod(extents(form.product.rows))) >= FEWEST_ROWS


@dataclass(frozen=True, slots=True, eq=False)
class ByteStrip(Strip):
    """A strip of rows of unsigned bytes, and the sum of each row, if it is needed."""

    totals: Buffer | None


class ByteKernel(GemmKernel):
    """The loops of one group whose anchor is a product of bytes with packed weights."""

    dtype = "int32"

    def __init__(
        self, form: ByteProduct, blocks: Blocks, packed: Buffer, group: Group, context: Context
    ) -> None:
        super().__init__(form.product, blocks, packed, group, context)
        self.bytes = form
        self.wide = form.dots.terms * self.lanes
        self.pitch = form.dots.terms * pitch(blocks.depth, self.lanes)

    def _strip(self, where: dict[tirx.Var, Expr], number: Expr, cores: int) -> Stmt:
        height, dots = self.tiles.strip, self.bytes.dots
        rows = scratch(height * self.pitch, dots.unsigned, "rows")
        totals = scratch(height, "int32", "totals")
        if constant(self.bytes.weight.signed_zero) == 0:
            totals = None

        def strip(inner: Expr) -> Strip:
            return ByteStrip(where, number, rows, (self.pitch, dots.terms), inner, totals)

        buffers = [rows] if totals is None else [rows, totals]
        return scoped(buffers, self._at_once(strip, cores), "strip")

    def _fill(self, strip: Strip, count: int) -> Stmt:
        """Copy the rows of a strip, with zeros at their ends, and sum them."""
        form, inner, dtype = self.form, self.form.inner.extent, self.bytes.dots.unsigned

        def copy(row: Expr, at: Expr) -> Stmt:
            where = self._at(strip, row) | {form.inner.var: at}
            value = as_unsigned(substitute(form.operand, where))
            value = value if dtype == "uint8" else tirx.Cast(dtype, value)
            return store(strip.rows, value, row * self.pitch + at)

        def blank(row: Expr, at: Expr) -> Stmt:
            return store(strip.rows, tirx.const(0, dtype), row * self.pitch + inner + at)

        def filled(row: Expr) -> Stmt:
            parts = [vectorised(inner, self.wide, lambda at: copy(row, at))]
            if rest := self.pitch - inner:
                parts.append(vectorised(rest, self.wide, lambda at: blank(row, at)))
            return sequence([*parts, *self._summed(strip, row)])

        return loop(count, filled, name="row")

    def _summed(self, strip: Strip, row: Expr) -> list[Stmt]:
        """Sum a row of a strip, if its sum is needed."""
        assert isinstance(strip, ByteStrip)
        if strip.totals is None:
            return []
        lanes = self.lanes
        held = scratch(lanes, "int32", "held", "local")
        partial = scratch(lanes, "int32", "partial")

        def part(number: Expr) -> Expr:
            numbers = load(strip.rows, whole(row * self.pitch + number * self.wide, self.wide))
            return tirx.reinterpret(f"int32x{lanes}", numbers)

        vectors = -(-self.form.inner.extent // self.wide)
        added = row_total(self.bytes.dots, lanes, part, vectors, held)
        copied = vector(lanes, lambda lane: store(partial, load(held, lane), lane))
        done = store(strip.totals, load(partial, integer(0)), row)
        body = sequence([added, copied, *folded(partial, lanes), done])
        return [scoped([held, partial], body, "total")]

    def _registers(self, strip: Strip, sums: Sums, tile: Expr, *, resumed: bool = False) -> Stmt:
        panel, first = sums.panel, tile * self.tiles.height

        def row(i: Expr, word: Expr) -> Expr:
            terms = self.bytes.dots.terms
            numbers = load(strip.rows, whole(strip.element(first + i, word), terms))
            return tirx.reinterpret("int32", numbers)

        def weight(word: Expr, column: Expr) -> Expr:
            words = load(self.packed, whole(self.panels.place(panel, word, column), self.lanes))
            return widened(words) if is_narrow(self.packed) else words

        def out(i: Expr, column: Expr, value: Expr) -> Stmt:
            place = whole(sums.start + i * panel.width + column, self.lanes)
            return store(sums.buffer, value, place)

        def ahead(word: Expr) -> list[Stmt]:
            return self._fetched(strip, panel, tile, word)

        registers = DotTile(self.tiles.height, panel.width, self.lanes, self.bytes.dots)
        return registers.multiplied(self.blocks.depth, row, weight, out, ahead)

    def _done(self, strip: Strip, row: Expr, sums: Sums, column: Expr, value: Expr) -> Stmt:
        """Correct a sum by the zero points, and store its results."""
        assert isinstance(strip, ByteStrip)
        at = self._at(strip, row) | {self.form.column.var: sums.panel.column + column}
        row_zero = substitute(self.bytes.operand.unsigned_zero, at)
        column_zero = substitute(self.bytes.weight.signed_zero, at)
        of_column = total_of(self.panels, self.packed, sums.panel, column)
        total = None if strip.totals is None else load(strip.totals, row)
        totals = Totals(of_column, total, self.form.inner.extent)
        return super()._done(
            strip, row, sums, column, totals.corrected(value, row_zero, column_zero)
        )


class MatrixKernel(ByteKernel):
    """The same, with the sums in registers that hold matrices."""

    def statement(self, *, few: bool = False) -> Stmt:
        return allowed(super().statement(few=few))

    def _panel(self, strip: Strip, panel: Panel) -> Stmt:
        return self._tile(panel).configured(super()._panel(strip, panel))

    def _tile(self, panel: Panel) -> MatrixTile:
        heights = heights_of(self.tiles.height)
        return MatrixTile(heights, panel.width // self.lanes, self._steps.words, ROWS_UNSIGNED)

    @property
    def _steps(self) -> Steps:
        return steps_of(self.blocks.depth)

    def _registers(self, strip: Strip, sums: Sums, tile: Expr, *, resumed: bool = False) -> Stmt:
        panel, steps, matrices = sums.panel, self._steps, self._tile(sums.panel)
        first, height = tile * self.tiles.height, matrices.heights[0]

        def row(i: int, at: list[Expr]) -> Place:
            return strip.rows, strip.element(first + i * height, at[0] * steps.words), self.pitch

        def column(j: int, at: list[Expr]) -> Place:
            place = self.panels.place(panel, at[0] * steps.words, integer(j * self.lanes))
            return self.packed, place, panel.width

        def out(i: int, j: int) -> Place:
            return (
                sums.buffer,
                sums.start + (i * height * panel.width + j * self.lanes),
                panel.width,
            )

        def ahead(at: list[Expr]) -> list[Stmt]:
            return self._fetched(strip, panel, tile, at[0] * steps.words, steps.words)

        return matrices.multiplied([steps.count], row, column, out, ahead)
