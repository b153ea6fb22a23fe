"""Loops of sums whose sizes are not all known."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from collage_dsl.backends.schedule.chains import LEAST_ROWS
from collage_dsl.backends.schedule.context import Context
from collage_dsl.backends.schedule.expressions import Expr, integer
from collage_dsl.backends.schedule.factors import Factor, existing, factor_of, pitch_of
from collage_dsl.backends.schedule.gemm.blocks import Tiles, blocks_of
from collage_dsl.backends.schedule.gemm.form import Product, product_of
from collage_dsl.backends.schedule.groups import Group
from collage_dsl.backends.schedule.loops import (
    Stmt,
    load,
    loop,
    parallel_nest,
    scoped,
    scratch,
    sequence,
    store,
    vectorised,
)
from collage_dsl.backends.schedule.reduction import reduction_statement
from collage_dsl.backends.schedule.stages import Stage, extents
from collage_dsl.backends.schedule.transposed import phases_of


def sum_of_any_size(group: Group, anchor: Stage, context: Context) -> Stmt:
    """The loops of a group whose first stage, `anchor`, sums products or anything else."""
    form = product_of(anchor, context.inlined)
    if form is not None and not form.by_columns and prod(extents(form.rows)) >= LEAST_ROWS:
        return _product_statement(form, group, context)
    phases = phases_of(anchor, context.inlined)
    if phases is None:
        return reduction_statement(group, context)
    stages, inlined = phases
    inside = replace(context, inlined=inlined)
    groups = [replace(group, stages=(stage, *group.epilogue)) for stage in stages]
    return sequence([reduction_statement(each, inside) for each in groups])


def _product_statement(form: Product, group: Group, context: Context) -> Stmt:
    """A product, whose weight is packed for each index of its batch, or once if it has one."""
    counts, cores = extents(form.batch), context.machine.cores
    tiles = blocks_of(form, context.machine).tiles
    strips = -(-tiles.rows // tiles.height)

    def one(batch: list[Expr]) -> Stmt:
        factor = factor_of(form, group, context, tuple(batch))
        computed = loop(strips, lambda n: _tile(factor, tiles, n * tiles.height), name="tile")
        return scoped([factor.packed], sequence([factor.packing(), computed]), "product")

    if not form.has_one_weight:
        return parallel_nest(counts, cores, one)
    first = factor_of(form, group, context, tuple(integer(0) for _ in counts))
    places = (*counts, strips)

    def part(place: list[Expr]) -> Stmt:
        *batch, strip = place
        return _tile(replace(first, batch=tuple(batch)), tiles, strip * tiles.height)

    computed = parallel_nest(places, cores, part)
    return scoped([first.packed], sequence([first.packing(), computed]), "product")


def _tile(factor: Factor, tiles: Tiles, start: Expr) -> Stmt:
    """The rows from `start`, copied first, times all panels."""
    inner, lanes = factor.panels.inner, factor.panels.lanes
    pitch = pitch_of(inner, lanes)
    rows = scratch(tiles.height * pitch, "float32", "rows")

    def copy(i: Expr) -> Stmt:
        def element(k: Expr) -> Stmt:
            return store(rows, factor.operand(start + i, k), i * pitch + k)

        return vectorised(inner, lanes, element)

    product = factor.multiplied(tiles, start, lambda i, k: load(rows, i * pitch + k))
    return scoped([rows], sequence([existing(tiles, start, copy), product]), "tile")
