"""Loops of a chain of products: tiles of rows whose scores never leave the caches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad

from collage_dsl.backends.schedule.chains import Chain
from collage_dsl.backends.schedule.context import Context, finish, spread
from collage_dsl.backends.schedule.expressions import (
    Buffer,
    Expr,
    integer,
    simplified,
    substitute,
)
from collage_dsl.backends.schedule.gemm.blocks import Tiles, blocks_of
from collage_dsl.backends.schedule.gemm.form import Product
from collage_dsl.backends.schedule.gemm.panels import Panel, Panels
from collage_dsl.backends.schedule.gemm.registers import Element, SumTile
from collage_dsl.backends.schedule.groups import Group, wide
from collage_dsl.backends.schedule.loops import (
    Stmt,
    load,
    loop,
    parallel,
    scoped,
    scratch,
    sequence,
    split_index,
    store,
    vectorised,
)
from collage_dsl.backends.schedule.rows import RowKernel
from collage_dsl.backends.schedule.stages import extents, shape

PART = 64  # steps in the innermost loop of a product


def chain_statement(chain: Chain, context: Context) -> Stmt:
    """
    The chain for each index of its batch, shared among the cores. If the batch is small and cannot
    be shared evenly, the tiles of each index are.
    """
    counts = extents(chain.product.batch)
    total, cores = prod(counts), context.machine.cores
    inside = total % cores != 0 and total < 4 * cores
    inner = replace(context, stored=context.stored | chain.kept)

    def one(number: Expr) -> Stmt:
        kernel = ChainKernel(chain, inner, tuple(split_index(number, counts)))
        return kernel.statement(cores if inside else 1)

    return parallel(total, 1 if inside else cores, one)


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """One of the two products of a chain, at one index of its batch, with its weight packed."""

    form: Product
    group: Group
    context: Context
    batch: tuple[Expr, ...]
    panels: Panels
    packed: Buffer

    def at(self, row: Expr) -> dict[tirx.Var, Expr]:
        axes = (*self.form.batch, *self.form.rows)
        return self.form.fixed | {
            axis.var: index for axis, index in zip(axes, (*self.batch, row), strict=True)
        }

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


class ChainKernel:
    """The loops of a chain at one index of its batch."""

    def __init__(self, chain: Chain, context: Context, batch: tuple[Expr, ...]) -> None:
        self.chain, self.context, self.batch = chain, context, batch
        self.lanes = context.machine.lanes
        self.tiles = blocks_of(chain.product, context.machine).tiles
        self.first = self._factor(chain.product, chain.first)
        self.last = self._factor(chain.result, chain.last)

    def _factor(self, form: Product, group: Group) -> Factor:
        panels = blocks_of(form, self.context.machine).panels
        packed = scratch(panels.size, "float32", "weights")
        return Factor(form, group, self.context, self.batch, panels, packed)

    def statement(self, cores: int) -> Stmt:
        """Pack both weights, then compute the tiles of rows, shared among the cores."""
        tiles = self.tiles
        count = -(-tiles.rows // tiles.height)
        computed = parallel(count, cores, lambda n: self._tile(n * tiles.height))
        parts = [self.first.packing(), self.last.packing(), computed]
        return scoped([self.first.packed, self.last.packed], sequence(parts), "chain")

    def _tile(self, start: Expr) -> Stmt:
        """The first product, the stages along its rows, and the second product."""
        tiles, chain = self.tiles, self.chain
        pitch = _pitch(self.first.panels.inner, self.lanes)
        rows = scratch(tiles.height * pitch, "float32", "rows")
        assert chain.middle.rows is not None
        kernel = RowKernel(chain.middle, self.context, chain.middle.rows[1])

        def copy(i: Expr) -> Stmt:
            def element(k: Expr) -> Stmt:
                return store(rows, self.first.operand(start + i, k), i * pitch + k)

            return vectorised(self.first.panels.inner, self.lanes, element)

        body = sequence(
            [
                existing(tiles, start, copy),
                self.first.kept(tiles, start, lambda i, k: load(rows, i * pitch + k)),
                existing(tiles, start, lambda i: kernel.row([*self.batch, start + i])),
                self.last.multiplied(tiles, start, lambda i, k: self.last.operand(start + i, k)),
            ]
        )
        return scoped([rows], self._folded(body, start), "tile")

    def _folded(self, body: Stmt, start: Expr) -> Stmt:
        """`body` with what only the chain reads in small buffers, which have the rows of a tile."""
        pitch = _pitch(self.first.panels.columns, self.lanes)
        small = {
            buffer: scratch(self.tiles.height * pitch, buffer.dtype, buffer.name)
            for buffer in sorted(self.chain.kept, key=lambda buffer: str(buffer.name))
        }

        def place(buffer: Buffer, indices: Any) -> Expr:
            moving = [i for i, e in zip(indices, shape(buffer), strict=True) if e > 1]
            return simplified(moving[-2] - start) * pitch + moving[-1]

        def read(access: TensorLoad) -> Expr:
            if access.source not in small:
                return access
            return load(small[access.source], place(access.source, access.indices))

        def write(access: Any) -> Stmt:
            if access.buffer not in small:
                return access
            return store(small[access.buffer], access.value, place(access.buffer, access.indices))

        folded = tvm_ffi.structural_map(body, ((TensorLoad, read), (tirx.BufferStore, write)))
        return scoped(list(small.values()), folded, "scores")


def _pitch(size: int, lanes: int) -> int:
    """An odd number of vectors that holds `size`, so that rows do not share sets of the cache."""
    return (-(-size // lanes) | 1) * lanes
