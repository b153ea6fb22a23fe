"""How a convolution by packed weights is cut into strips of the image, parts and panels."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from collage_dsl.backends.schedule.gemm.blocks import OTHERS, even_part, tiles_of
from collage_dsl.backends.schedule.gemm.image import ImageProduct, PackedFilters
from collage_dsl.backends.schedule.gemm.panels import Panels
from collage_dsl.backends.schedule.machine import Machine
from collage_dsl.backends.schedule.stages import extents

PIXELS = 224  # the most in a strip, unless one row of the image has more
DEPTH = 384  # the most products that are summed before the sums are stored
VECTORS = 2


@dataclass(frozen=True, slots=True)
class ImageBlocks:
    """
    `strips` of `rows` rows of the image, of which the last may have fewer, in tiles of `tile`
    pixels.
    """

    rows: int
    strips: int
    tile: int
    filters: PackedFilters


def image_blocks(form: ImageProduct, machine: Machine) -> ImageBlocks:
    """The blocks in which a machine computes a convolution."""
    strips = -(-form.height // max(1, PIXELS // form.width))
    rows = -(-form.height // strips)
    strips = -(-form.height // rows)
    pixels = rows * form.width
    tile = tiles_of(pixels, (machine.registers - OTHERS) // VECTORS, 1, waiting=False).height
    channels = even_part(form.channels, DEPTH // form.taps)
    panels = Panels(form.column.extent, channels * form.taps, machine.lanes, VECTORS)
    filters = PackedFilters(panels, form.channels // channels, prod(extents(form.groups)))
    return ImageBlocks(rows, strips, tile, filters)
