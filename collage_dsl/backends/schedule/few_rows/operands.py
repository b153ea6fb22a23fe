"""The operands of a product with few rows, read where they are, and the end of its sums."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tvm import tirx

from collage_dsl.backends.schedule.context import Context, finish
from collage_dsl.backends.schedule.expressions import Buffer, Expr, substitute
from collage_dsl.backends.schedule.gemm.form import Product
from collage_dsl.backends.schedule.groups import Group, wide
from collage_dsl.backends.schedule.loops import Stmt, load, loop, split_index, vectorised
from collage_dsl.backends.schedule.stages import extents


@dataclass(frozen=True, slots=True, eq=False)
class Operands:
    """The factors and the results of one group by row, column and inner index."""

    form: Product
    group: Group
    context: Context

    @property
    def axes(self) -> tuple[int, ...]:
        """The extents of the axes of a row."""
        return extents((*self.form.batch, *self.form.rows))

    @property
    def rows(self) -> int:
        return prod(self.axes)

    @property
    def lanes(self) -> int:
        return self.context.machine.lanes

    def weight(self, column: Expr, inner: Expr) -> Expr:
        at = self.form.fixed | {self.form.column.var: column, self.form.inner.var: inner}
        return substitute(self.form.weight, at)

    def operand(self, row: Expr, inner: Expr) -> Expr:
        return substitute(self.form.operand, self._at(row) | {self.form.inner.var: inner})

    def done(self, sums: Buffer, first: Expr, count: int) -> Stmt:
        """Finish `count` columns from `first`; `sums` has a row of them for each row."""

        def element(row: Expr, column: Expr) -> Stmt:
            at = self._at(row) | {self.form.column.var: first + column}
            index = [at[axis.var] for axis in wide(self.form.stage.spatial)]
            held = {self.form.stage.buffer: load(sums, row * count + column)}
            return finish(self.context, self.group.epilogue, index, held)

        def line(row: Expr) -> Stmt:
            return vectorised(count, self.lanes, lambda column: element(row, column))

        return loop(self.rows, line, name="row")

    def _at(self, row: Expr) -> dict[tirx.Var, Expr]:
        axes = (*self.form.batch, *self.form.rows)
        parts = split_index(row, self.axes)
        return self.form.fixed | {axis.var: p for axis, p in zip(axes, parts, strict=True)}
