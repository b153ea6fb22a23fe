"""Transform the weights of a convolution, once, into the order in which a kernel reads them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tvm import tirx

from collage_dsl.backends.schedule.expressions import Buffer, Expr, integer
from collage_dsl.backends.schedule.flatten import flattened
from collage_dsl.backends.schedule.loops import Stmt, load, loop, nest, scoped, sequence, store
from collage_dsl.backends.schedule.rewriting import Rewriting
from collage_dsl.backends.schedule.scheduled import preparing
from collage_dsl.backends.schedule.winograd.blocks import Blocks, Piece
from collage_dsl.backends.schedule.winograd.dequantized import ByteFilters
from collage_dsl.backends.schedule.winograd.form import Convolution
from collage_dsl.backends.schedule.winograd.maps import BothWays, Lines

Tap = Callable[[Expr, Expr, int, Expr], Expr]


def preparation(
    form: Convolution,
    blocks: Blocks,
    packed: Buffer,
    rewritten: Rewriting | None,
    of_bytes: ByteFilters | None,
) -> Any:
    """The PrimFunc that takes the weights OIHW, or bytes, and writes the transformed ones."""
    weight = rewritten.weight if rewritten else form.weight
    tap = rewritten.tap if rewritten else _tap
    blank = loop(
        form.groups * blocks.packed,
        lambda e: store(packed, tirx.FloatImm("float32", 0.0), e),
    )
    parts = [
        blank,
        *(_piece(form, blocks, partial(tap, weight), packed, piece) for piece in blocks.pieces),
    ]
    if of_bytes is None:
        return _prepared(weight, packed, sequence(parts))
    floats = scoped([weight], sequence([of_bytes.copied(), *parts]), "floats")
    return _prepared(of_bytes.weight, packed, floats)


def _prepared(weight: Buffer, packed: Buffer, body: Stmt) -> Any:
    flat, _ = flattened(body, [weight, packed], [])
    return preparing(weight, packed, flat)


def _tap(weight: Buffer, output: Expr, channel: Expr, i: int, j: Expr) -> Expr:
    return load(weight, output, channel, integer(i), j)


def _piece(form: Convolution, blocks: Blocks, taps: Tap, packed: Buffer, piece: Piece) -> Stmt:
    width = piece.vectors * blocks.lanes
    filters = min(width, piece.filters)

    def one(at: list[Expr]) -> Stmt:
        group, number, channel, lane = at
        first = piece.first + number * width
        source = (group * form.group_filters + first + lane, channel)
        start = group * blocks.packed + first * (blocks.channels * blocks.tile.points)
        target = start + channel * width + lane
        return _filter(blocks, partial(taps, *source), packed, target, blocks.channels * width)

    return nest((form.groups, piece.blocks, blocks.channels, filters), one)


def _filter(
    blocks: Blocks,
    taps: Callable[[int, Expr], Expr],
    packed: Buffer,
    target: Expr,
    distance: int,
) -> Stmt:
    """One filter of one channel, in double precision until it is stored."""
    tile = blocks.tile
    both = BothWays(tile.down.weights, tile.across.weights, 1, by_rows=True, dtype="float64")

    def tap(lines: Lines, i: int, j: Expr) -> Expr:
        return lines.named(tirx.Cast("float64", taps(i, j)))

    def write(lines: Lines, i: Expr, j: int, value: Expr) -> None:
        point = i * tile.across.inputs + j
        lines.write(packed, tirx.Cast("float32", value), target + point * distance)

    held = both.between()
    return scoped([held], both.statement(held, tap, write), "filter")
