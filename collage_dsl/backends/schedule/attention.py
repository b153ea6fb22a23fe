"""Loops of a chain of products: tiles of rows whose scores never leave the caches."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad

from collage_dsl.backends.schedule.chains import Chain
from collage_dsl.backends.schedule.context import Context
from collage_dsl.backends.schedule.expressions import (
    Buffer,
    Expr,
    simplified,
)
from collage_dsl.backends.schedule.factors import existing, factor_of, pitch_of
from collage_dsl.backends.schedule.gemm.blocks import blocks_of
from collage_dsl.backends.schedule.loops import (
    Stmt,
    load,
    parallel,
    parallel_nest,
    scoped,
    scratch,
    sequence,
    store,
    vectorised,
)
from collage_dsl.backends.schedule.rows import RowKernel
from collage_dsl.backends.schedule.stages import extents, shape


def chain_statement(chain: Chain, context: Context) -> Stmt:
    """
    The chain for each index of its batch, shared among the cores. If the batch is small and cannot
    be shared evenly, the tiles of each index are.
    """
    counts = extents(chain.product.batch)
    total, cores = prod(counts), context.machine.cores
    inside = total % cores != 0 and total < 4 * cores
    inner = replace(context, stored=context.stored | chain.kept)

    def one(batch: list[Expr]) -> Stmt:
        kernel = ChainKernel(chain, inner, tuple(batch))
        return kernel.statement(cores if inside else 1)

    return parallel_nest(counts, 1 if inside else cores, one)


class ChainKernel:
    """The loops of a chain at one index of its batch."""

    def __init__(self, chain: Chain, context: Context, batch: tuple[Expr, ...]) -> None:
        self.chain, self.context, self.batch = chain, context, batch
        self.lanes = context.machine.lanes
        self.tiles = blocks_of(chain.product, context.machine).tiles
        self.first = factor_of(chain.product, chain.first, context, batch)
        self.last = factor_of(chain.result, chain.last, context, batch)

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
        pitch = pitch_of(self.first.panels.inner, self.lanes)
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
        pitch = pitch_of(self.first.panels.padded, self.lanes)
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
