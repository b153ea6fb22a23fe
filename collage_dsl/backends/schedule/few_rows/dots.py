"""Loops over weights that are contiguous along the inner axis: several dot products at a time."""

from __future__ import annotations

from collections.abc import Callable

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
    vector,
)

STREAMS = 6  # columns of weights read at the same time: one alone does not use all the memory
COLUMNS = 48  # columns whose results are stored together
OTHERS = 6  # registers that hold no sums


def dots_statement(operands: Operands) -> Stmt:
    """The columns in groups of COLUMNS, shared among the cores."""
    full, rest = divmod(operands.form.column.extent, COLUMNS)
    parts = []
    if full:
        cores = operands.context.machine.cores
        parts.append(parallel(full, cores, lambda n: _columns(operands, n * COLUMNS, COLUMNS)))
    if rest:
        parts.append(_columns(operands, integer(full * COLUMNS), rest))
    return sequence(parts)


def _columns(operands: Operands, first: Expr, count: int) -> Stmt:
    registers = operands.context.machine.registers - OTHERS
    at_once = max(1, min(STREAMS, registers // operands.rows))
    sums = scratch(operands.rows * count, "float32", "sums")
    full, rest = divmod(count, at_once)

    def streams(start: Expr, number: int) -> Stmt:
        def put(stream: Expr, row: Expr, value: Expr) -> Stmt:
            return store(sums, value, row * count + start + stream)

        return _streams(operands, first + start, number, put)

    parts = []
    if full:
        parts.append(loop(full, lambda n: streams(n * at_once, at_once)))
    if rest:
        parts.append(streams(integer(count - rest), rest))
    return scoped([sums], sequence([*parts, operands.done(sums, first, count)]), "columns")


def _streams(
    operands: Operands, first: Expr, streams: int, put: Callable[[Expr, Expr, Expr], Stmt]
) -> Stmt:
    """The dot products of all rows with `streams` columns."""
    lanes, rows = operands.lanes, operands.rows
    held = scratch(streams * rows * lanes, "float32", "held", "local")
    partial = scratch(lanes, "float32", "partial")
    full, rest = divmod(operands.form.inner.extent, lanes)

    def each(body: Callable[[Expr, Expr, Expr], Stmt]) -> Stmt:
        """`body` for each stream and row, and the start of its sums."""
        return unrolled(
            streams, lambda s: unrolled(rows, lambda r: body(s, r, (s * rows + r) * lanes))
        )

    def clear(_stream: Expr, _row: Expr, start: Expr) -> Stmt:
        return vector(lanes, lambda v: store(held, operands.form.stage.init, start + v))

    def add(inner: Expr, count: int) -> Stmt:
        def one(stream: Expr, row: Expr, start: Expr) -> Stmt:
            def lane(v: Expr) -> Stmt:
                term = operands.operand(row, inner + v) * operands.weight(first + stream, inner + v)
                return store(held, load(held, start + v) + term, start + v)

            return vector(count, lane)

        return each(one)

    def total(stream: Expr, row: Expr, start: Expr) -> Stmt:
        copied = vector(lanes, lambda v: store(partial, load(held, start + v), v))
        summed = put(stream, row, load(partial, integer(0)))
        return sequence([copied, *folded(partial, lanes), summed])

    parts = [each(clear)]
    if full:
        parts.append(loop(full, lambda n: add(n * lanes, lanes), name="inner"))
    if rest:
        parts.append(add(integer(full * lanes), rest))
    return scoped([held, partial], sequence([*parts, each(total)]), "streams")


def folded(partial: Buffer, lanes: int) -> list[Stmt]:
    """Add the upper half of the lanes to the lower half until one lane remains."""

    def fold(half: int) -> Stmt:
        def one(v: Expr) -> Stmt:
            return store(partial, load(partial, v) + load(partial, v + half), v)

        return vector(half, one)

    return [fold(lanes >> step) for step in range(1, lanes.bit_length())]
