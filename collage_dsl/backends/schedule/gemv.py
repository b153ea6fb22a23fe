"""Loops of a vector times a matrix, which is limited by reading the matrix once, in order."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tvm import tirx

from collage_dsl.backends.schedule.context import Context, finish
from collage_dsl.backends.schedule.expressions import Expr, integer, substitute
from collage_dsl.backends.schedule.groups import Group
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
from collage_dsl.backends.schedule.sliding import Sliding, written_at
from collage_dsl.backends.schedule.stages import extents

COLUMNS = 4096  # columns at once, whose sums stay in the first-level cache
STREAMS = 8  # rows of the matrix read at the same time, as many as a prefetcher follows


def is_vector_times_matrix(form: Sliding) -> bool:
    """Whether each element of the moving operand is used only once."""
    x = form.x
    plain = x.stride == 1 and not x.taps and form.y is None
    return form.still is not None and not form.rows and plain and bool(form.channels)


def gemv_statement(form: Sliding, group: Group, context: Context) -> Stmt:
    """Add STREAMS rows of the matrix at a time to the sums of all columns of a tile."""
    width = form.x.axis.extent
    cores = context.machine.cores
    tiles = _tiles(width, prod(extents(form.batch)), cores, context.machine.lanes)
    counts = (*extents(form.batch), tiles)

    def task(number: Expr) -> Stmt:
        *at, tile = split_index(number, counts)
        where = {axis.var: index for axis, index in zip(form.batch, at, strict=True)}
        where |= {axis.var: integer(0) for axis in form.stage.spatial if axis.extent == 1}
        return _tile(form, group, context, where, tile * (width // tiles), width // tiles)

    return parallel(prod(counts), cores, task)


def _tiles(width: int, batch: int, cores: int, lanes: int) -> int:
    """The fewest equal tiles of whole vectors that stay in the cache and give each core work."""
    wanted = max(-(-width // COLUMNS), 1 if batch >= cores else cores)
    fitting = (n for n in range(wanted, width + 1) if width % n == 0 and width // n % lanes == 0)
    return next(fitting, 1)


def _tile(
    form: Sliding,
    group: Group,
    context: Context,
    where: dict[tirx.Var, Expr],
    start: Expr,
    width: int,
) -> Stmt:
    lanes, channels = context.machine.lanes, prod(extents(form.channels))
    sums = scratch(width, "float32", "sums")
    full, rest = divmod(channels, STREAMS)

    def each(body: Callable[[Expr], Stmt]) -> Stmt:
        return vectorised(width, lanes, body)

    def add(first: Expr, count: int) -> Stmt:
        def one(column: Expr) -> Stmt:
            value = load(sums, column)
            for channel in range(count):
                value = value + _product(form, context, where, first + channel, start + column)
            return store(sums, value, column)

        return each(one)

    def done(column: Expr) -> Stmt:
        at = written_at(form, where | {form.x.axis.var: start + column})
        return finish(context, group.epilogue, at, {form.stage.buffer: load(sums, column)})

    parts = [each(lambda column: store(sums, form.stage.init, column))]
    if full:
        parts.append(loop(full, lambda block: add(block * STREAMS, STREAMS)))
    if rest:
        parts.append(add(integer(full * STREAMS), rest))
    return scoped([sums], sequence([*parts, each(done)]), "columns")


def _product(
    form: Sliding, context: Context, where: dict[tirx.Var, Expr], channel: Expr, column: Expr
) -> Expr:
    parts = split_index(channel, extents(form.channels))
    at = where | {axis.var: part for axis, part in zip(form.channels, parts, strict=True)}
    at[form.x.axis.var] = column
    return substitute(form.still, at) * substitute(context.inlined.expand(form.moving), at)
