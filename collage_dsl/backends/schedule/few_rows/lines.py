"""Loops over weights that are contiguous along the columns: several inner indices at a time."""

from __future__ import annotations

from collage_dsl.backends.schedule.expressions import Buffer, Expr, integer
from collage_dsl.backends.schedule.few_rows.operands import Operands
from collage_dsl.backends.schedule.loops import (
    Stmt,
    load,
    loop,
    parallel,
    scoped,
    scratch,
    sequence,
    store,
    unrolled,
    vectorised,
)

STREAMS = 8  # lines of weights read at the same time
COLUMNS = 4096  # columns at once, whose sums stay in the first-level cache


def lines_statement(operands: Operands) -> Stmt:
    """The columns in equal parts, shared among the cores."""
    columns = operands.form.column.extent
    cores = operands.context.machine.cores
    parts = max(-(-columns * operands.rows // COLUMNS), cores)
    width = -(-columns // (parts * operands.lanes)) * operands.lanes
    full, rest = divmod(columns, width)
    statements = []
    if full:
        statements.append(parallel(full, cores, lambda n: _columns(operands, n * width, width)))
    if rest:
        statements.append(_columns(operands, integer(full * width), rest))
    return sequence(statements)


def _columns(operands: Operands, first: Expr, count: int) -> Stmt:
    sums = scratch(operands.rows * count, "float32", "sums")
    full, rest = divmod(operands.form.inner.extent, STREAMS)
    init = operands.form.stage.init
    size = operands.rows * count
    parts = [vectorised(size, operands.lanes, lambda place: store(sums, init, place))]

    def add(inner: Expr, streams: int) -> Stmt:
        return _added(operands, sums, (first, count), (inner, streams))

    if full:
        parts.append(loop(full, lambda n: add(n * STREAMS, STREAMS), name="inner"))
    if rest:
        parts.append(add(integer(full * STREAMS), rest))
    return scoped([sums], sequence([*parts, operands.done(sums, first, count)]), "columns")


def _added(
    operands: Operands, sums: Buffer, columns: tuple[Expr, int], lines: tuple[Expr, int]
) -> Stmt:
    """Add the products of some lines to the sums of all rows."""
    first, count = columns
    inner, streams = lines

    def one(row: Expr, column: Expr) -> Stmt:
        value = load(sums, row * count + column)
        for stream in range(streams):
            weight = operands.weight(first + column, inner + stream)
            value = value + operands.operand(row, inner + stream) * weight
        return store(sums, value, row * count + column)

    return vectorised(
        count, operands.lanes, lambda column: unrolled(operands.rows, lambda row: one(row, column))
    )
