"""Pack the weights of a block in the order in which its loops read them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tvm import tirx

from collage_dsl.backends.schedule.depthwise.form import Part
from collage_dsl.backends.schedule.depthwise.sizes import Sizes
from collage_dsl.backends.schedule.expressions import Buffer, Expr, integer
from collage_dsl.backends.schedule.flatten import flattened
from collage_dsl.backends.schedule.loops import load, nest, store
from collage_dsl.backends.schedule.scheduled import preparing

Order = tuple[tuple[int, ...], Any]
"""The extents of packed weights, and the index OIHW of the weight at each place."""


def order(part: Part, sizes: Sizes) -> Order:
    """How the weights of one part are packed."""
    width = sizes.width
    if part is sizes.block.first:
        return (sizes.chunks, part.channels, width), lambda n, c, lane: (n * width + lane, c, 0, 0)
    if part is sizes.block.depthwise:
        counts = (sizes.chunks, *part.taps, width)
        return counts, lambda n, i, j, lane: (n * width + lane, 0, i, j)
    assert sizes.last
    columns = sizes.last.width
    counts = (sizes.chunks, sizes.panels, width, columns)
    return counts, lambda n, p, c, lane: (p * columns + lane, n * width + c, 0, 0)


def packed(part: Part, sizes: Sizes) -> Buffer:
    """The buffer of the packed weights."""
    counts, _ = order(part, sizes)
    size = integer(prod(counts))
    return tirx.decl_buffer((size,), "float32", part.weight.name, data_alignment=64)


def packing(part: Part, sizes: Sizes, target: Buffer) -> Any:
    """The PrimFunc that takes the weights and writes the packed ones."""
    counts, source = order(part, sizes)
    weight = tirx.decl_buffer(part.weight.shape, "float32", "weight")

    def one(at: Sequence[Expr]) -> Any:
        filter_, *rest = source(*at)
        value = load(weight, filter_, *rest)
        if part is sizes.block.last and part.filters < sizes.panels * counts[-1]:
            value = tirx.if_then_else(filter_ < part.filters, value, tirx.const(0, "float32"))
        return store(target, value, place(counts, at))

    body, _ = flattened(nest(counts, lambda at: one(at)), [weight], [])
    return preparing(weight, target, body)


def place(counts: Sequence[int], at: Sequence[Expr]) -> Expr:
    """The position of an index in row-major order."""
    position: Expr = integer(0)
    for index, extent in zip(at, counts, strict=True):
        position = position * extent + index
    return position
