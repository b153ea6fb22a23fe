"""Loops of a product at one index of its batch, with the weight packed as the kernel runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tvm import tirx

from collage_dsl.backends.schedule.context import Context, finish, spread
from collage_dsl.backends.schedule.expressions import Buffer, Expr, integer, substitute
from collage_dsl.backends.schedule.gemm.blocks import Tiles, blocks_of
from collage_dsl.backends.schedule.gemm.form import Product
from collage_dsl.backends.schedule.gemm.panels import Panel, Panels
from collage_dsl.backends.schedule.gemm.registers import Element, SumTile
from collage_dsl.backends.schedule.groups import Group, wide
from collage_dsl.backends.schedule.loops import (
    Stmt,
    load,
    loop,
    scoped,
    scratch,
    sequence,
    split_index,
    store,
    vectorised,
)
from collage_dsl.backends.schedule.sizes import is_known
from collage_dsl.backends.schedule.stages import extents

PART = 64  # steps in the innermost loop of a product


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """A product with what follows it, at one index of its batch, with its weight packed."""

    form: Product
    group: Group
    context: Context
    batch: tuple[Expr, ...]
    panels: Panels
    packed: Buffer

    def at(self, row: Expr) -> dict[tirx.Var, Expr]:
        axes = (*self.form.batch, *self.form.rows)
        places = (*self.batch, *split_index(row, extents(self.form.rows)))
        return self.form.fixed | {axis.var: index for axis, index in zip(axes, places, strict=True)}

    def operand(self, row: Expr, inner: Expr) -> Expr:
        return substitute(self.form.operand, self.at(row) | {self.form.inner.var: inner})

    def packing(self) -> Stmt:
        """Copy the weight into panels. What is beside its columns stays undefined."""

        def copied(panel: Panel) -> Stmt:
            def element(inner: Expr, column: Expr) -> Stmt:
                at = self.at(integer(0)) | {
                    self.form.column.var: panel.column + column,
                    self.form.inner.var: inner,
                }
                place = self.panels.place(panel, inner, column)
                return store(self.packed, substitute(self.form.weight, at), place)

            def line(inner: Expr) -> Stmt:
                return vectorised(
                    panel.used, self.panels.lanes, lambda column: element(inner, column)
                )

            return loop(self.panels.inner, line, name="inner")

        return self.panels.each(copied)

    def kept(self, tiles: Tiles, start: Expr, row: Element) -> Stmt:
        """The rows `row` of a tile times all panels, stored for the next group of the chain."""
        if self.group.epilogue:
            return self.multiplied(tiles, start, row)

        def out(panel: Panel, i: Expr, column: Expr, value: Expr) -> Stmt:
            index = self._index(start + i, panel.column + column)
            return store(self.form.stage.buffer, value, *spread(self.form.stage.buffer, index))

        return self.panels.each(lambda panel: self._tile(tiles, panel, row, partial(out, panel)))

    def multiplied(self, tiles: Tiles, start: Expr, row: Element) -> Stmt:
        """The rows `row` of a tile times all panels, with what follows, stored."""
        sums = scratch(tiles.height * self.panels.width, "float32", "sums")

        def panel(panel: Panel) -> Stmt:
            def out(i: Expr, column: Expr, value: Expr) -> Stmt:
                return store(sums, value, i * panel.width + column)

            computed = self._tile(tiles, panel, row, out)
            return sequence([computed, self._stored(tiles, start, panel, sums)])

        return scoped([sums], self.panels.each(panel), "product")

    def _tile(
        self, tiles: Tiles, panel: Panel, row: Element, out: Callable[[Expr, Expr, Expr], Stmt]
    ) -> Stmt:
        def weight(inner: Expr, column: Expr) -> Expr:
            return load(self.packed, self.panels.place(panel, inner, column))

        tile = SumTile(tiles.height, panel.width, self.panels.lanes, PART)
        init = self.form.stage.init
        return tile.multiplied(self.panels.inner, row, weight, lambda i, column: init, out)

    def _index(self, row: Expr, column: Expr) -> list[Expr]:
        at = self.at(row) | {self.form.column.var: column}
        return [at[axis.var] for axis in wide(self.form.stage.spatial)]

    def _stored(self, tiles: Tiles, start: Expr, panel: Panel, sums: Buffer) -> Stmt:
        def element(i: Expr, column: Expr) -> Stmt:
            index = self._index(start + i, panel.column + column)
            held = {self.form.stage.buffer: load(sums, i * panel.width + column)}
            return finish(self.context, self.group.epilogue, index, held)

        def line(i: Expr) -> Stmt:
            return vectorised(panel.used, self.panels.lanes, lambda column: element(i, column))

        return existing(tiles, start, line)


def existing(tiles: Tiles, start: Expr, body: Callable[[Expr], Stmt]) -> Stmt:
    """`body` for each row of a tile that exists."""
    if tiles.rows % tiles.height == 0:
        return loop(tiles.height, body, name="row")

    def guarded(i: Expr) -> Stmt:
        return tirx.IfThenElse(start + i < tiles.rows, body(i), None)

    return loop(tiles.height, guarded, name="row")


def factor_of(form: Product, group: Group, context: Context, batch: tuple[Expr, ...]) -> Factor:
    panels = blocks_of(form, context.machine).panels
    packed = scratch(panels.size, "float32", "weights")
    return Factor(form, group, context, batch, panels, packed)


def pitch_of(size: int, lanes: int) -> int:
    """
    An odd number of vectors that holds `size`, so that rows do not share sets of the cache. Of one
    that is not known, one vector more: the padded columns of panels are an even number of vectors.
    """
    vectors = -(-size // lanes)
    return (vectors | 1 if is_known(size) else vectors + 1) * lanes
