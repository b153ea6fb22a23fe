"""The packed form of the weights of a matrix product, and the function that packs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from collage_dsl.backends.schedule.expressions import Buffer, Expr, integer, substitute
from collage_dsl.backends.schedule.gemm.form import Product
from collage_dsl.backends.schedule.loops import Stmt, loop, parallel, sequence, store
from collage_dsl.backends.schedule.scheduled import preparing
from collage_dsl.backends.schedule.sizes import is_known


@dataclass(frozen=True, slots=True)
class Panel:
    """`used` columns from `column`, packed as `[inner][width]`; other columns are zero."""

    column: Expr
    width: int
    used: int


@dataclass(frozen=True, slots=True)
class Panels:
    """
    Packed weights: panels of `vectors` vectors of columns, one after the other.

    The last panel has only as many vectors as it needs, or all if the `columns` are not known.
    """

    columns: int
    inner: int
    lanes: int
    vectors: int

    @property
    def width(self) -> int:
        return self.vectors * self.lanes

    @property
    def padded(self) -> int:
        """The columns, also those of the last vector, or panel, that do not exist."""
        whole = self.lanes if is_known(self.columns) else self.width
        return -(-self.columns // whole) * whole

    @property
    def size(self) -> int:
        return self.inner * self.padded

    def each(self, body: Callable[[Panel], Stmt], cores: int = 1) -> Stmt:
        """`body` for each panel, shared among the cores."""
        full, rest = divmod(self.columns, self.width)
        parts = []
        if full:
            parts.append(
                parallel(full, cores, lambda n: body(Panel(n * self.width, self.width, self.width)))
            )
        if not is_known(rest):
            last = body(Panel(integer(full * self.width), self.width, rest))
            parts.append(tirx.IfThenElse(integer(rest) > 0, last, None))
        elif rest:
            width = -(-rest // self.lanes) * self.lanes
            parts.append(body(Panel(integer(full * self.width), width, rest)))
        return sequence(parts)

    def place(self, panel: Panel, inner: Expr, column: Expr) -> Expr:
        """Where the packed weights have a column of a panel."""
        return panel.column * self.inner + inner * panel.width + column


def packing(form: Product, panels: Panels, packed: Buffer) -> Any:
    """The PrimFunc that packs weights: it takes them and writes `packed`."""

    def element(panel: Panel, inner: Expr, column: Expr) -> Stmt:
        at = form.fixed | {form.column.var: panel.column + column, form.inner.var: inner}
        value = substitute(form.weight, at)
        if panel.used < panel.width:
            value = tirx.if_then_else(column < panel.used, value, tirx.const(0, packed.dtype))
        return store(packed, value, panels.place(panel, inner, column))

    def copied(panel: Panel) -> Stmt:
        def row(inner: Expr) -> Stmt:
            return loop(panel.width, lambda column: element(panel, inner, column), name="column")

        return loop(panels.inner, row, name="inner")

    return preparing(form.weights, packed, panels.each(copied))
