"""
The blocks and the packed weights of a convolution of bytes with output channels in vectors.

Filters are packed in panels. Some bytes of a filter are one word, and the word of the next output
channel follows. After all panels come the sums of the filters, and then a filter of ones, with 0
for channels that do not exist. The product with it is the sum of the bytes that a pixel reads.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad

from collage_dsl.backends.schedule.byte_products.image import ByteImage, filter_bytes, ones_of
from collage_dsl.backends.schedule.byte_products.panels import word_of
from collage_dsl.backends.schedule.expressions import Buffer, Expr
from collage_dsl.backends.schedule.gemm.image import ImageProduct, PackedFilters
from collage_dsl.backends.schedule.gemm.image_blocks import VECTORS, ImageBlocks, in_strips
from collage_dsl.backends.schedule.gemm.panels import Panel, Panels
from collage_dsl.backends.schedule.loops import Stmt, load, loop, nest, sequence, store
from collage_dsl.backends.schedule.machine import Machine
from collage_dsl.backends.schedule.packing import Packed
from collage_dsl.backends.schedule.scheduled import preparing
from collage_dsl.backends.schedule.stages import extents

SEVERAL_TAPS = 1.3  # the time of a step with pixels in vectors, for several taps and few registers
TURNED = 40  # time to copy pixels and to transpose sums, in steps of the inner loop


def channel_blocks(form: ByteImage, machine: Machine) -> ImageBlocks | None:
    """
    The blocks of a convolution with channels in vectors; None if pixels in vectors take less time,
    because they leave fewer lanes empty.
    """
    panels = Panels(form.column.extent, form.steps, machine.lanes, VECTORS)
    image = image_of(form)
    blocks = in_strips(image, machine, PackedFilters(panels, 1, 1))
    whole = Packed(form.window.y, form.window.x, 1, image.height, image.width, machine.lanes)
    tiles = -(-blocks.rows * image.width // blocks.tile) * blocks.strips
    by_channels = tiles * blocks.tile * panels.padded * (form.steps + TURNED)
    by_pixels: float = whole.vectors * machine.lanes * form.column.extent * form.steps
    if machine.has_few_registers and form.taps > 1:
        by_pixels *= SEVERAL_TAPS
    return blocks if by_channels < by_pixels else None


def image_of(form: ByteImage) -> ImageProduct:
    """The same convolution, without its zero points."""
    assert isinstance(form.weight.value, TensorLoad), "see `byte_image`"
    return ImageProduct(form.window, form.weight.value)


def total_place(panels: Panels, column: Expr) -> Expr:
    """Where the packed weights have the sum of the filter of a column."""
    return panels.size + column


def ones_place(panels: Panels, inner: Expr) -> Expr:
    """Where the packed weights have a word of the filter of ones."""
    return panels.size + panels.padded + inner


def packed_size(panels: Panels) -> int:
    return panels.size + panels.padded + panels.inner


def channel_filters(form: ByteImage, panels: Panels, packed: Buffer) -> Any:
    """The PrimFunc that packs weights: it takes them and writes `packed`."""
    steps = (form.words, *extents(form.window.taps))

    def word(panel: Panel, column: Expr, at: list[Expr]) -> Stmt:
        bytes_ = filter_bytes(form, panel.column + column, at[0], at[1:])
        total = total_place(panels, panel.column + column)
        summed = store(packed, sum(bytes_, load(packed, total)), total)
        there = store(packed, word_of(bytes_), panels.place(panel, form.step(*at), column))
        return sequence([summed, there])

    def filter_(panel: Panel, column: Expr) -> Stmt:
        zero = tirx.IntImm("int32", 0)
        begin = store(packed, zero, total_place(panels, panel.column + column))
        return sequence([begin, nest(steps, lambda at: word(panel, column, at))])

    def empty(panel: Panel, column: Expr) -> Stmt:
        zero = tirx.IntImm("int32", 0)
        return loop(
            panels.inner,
            lambda inner: store(packed, zero, panels.place(panel, inner, panel.used + column)),
            name="inner",
        )

    def copied(panel: Panel) -> Stmt:
        parts = [loop(panel.used, lambda column: filter_(panel, column), name="column")]
        if rest := panel.width - panel.used:
            parts.append(loop(rest, lambda column: empty(panel, column), name="empty"))
        return sequence(parts)

    def ones(at: list[Expr]) -> Stmt:
        return store(packed, word_of(ones_of(form, at[0])), ones_place(panels, form.step(*at)))

    body = sequence([panels.each(copied), nest(steps, ones)])
    return preparing(form.weights, packed, body)
