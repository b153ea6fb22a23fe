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
MOST_FILTERS = 6  # those of a tile with pixels in vectors
SCATTERED = 1.12  # the time of a step of tiles of channels, if these read pixels of several taps
TURNED = 24  # the time to transpose the sums of a tile of channels, in steps of the inner loop


@dataclass(frozen=True, slots=True)
class ImageBlocks:
    """
    `strips` of `strip` pixels, of which the last may have fewer, in tiles of `tile` pixels. A strip
    has `rows` rows of the image, or 0 if it may begin and end inside of a row.
    """

    rows: int
    strip: int
    strips: int
    tile: int
    filters: PackedFilters


def image_blocks(form: ImageProduct, machine: Machine) -> ImageBlocks:
    """The blocks in which a machine computes a convolution."""
    return in_strips(form, machine, _filters(form, machine.lanes, VECTORS))


def in_strips(form: ImageProduct, machine: Machine, filters: PackedFilters) -> ImageBlocks:
    """The blocks with as many pixels in a tile as registers hold for panels of `VECTORS`."""
    strips = -(-form.height // max(1, PIXELS // form.width))
    rows = -(-form.height // strips)
    strips = -(-form.height // rows)
    pixels = rows * form.width
    tile = tiles_of(pixels, (machine.registers - OTHERS) // VECTORS, 1, waiting=False).height
    return ImageBlocks(rows, pixels, strips, tile, filters)


def pixel_blocks(form: ImageProduct, machine: Machine) -> ImageBlocks | None:
    """
    The blocks of a convolution with pixels in vectors. None if channels in vectors take less time.

    The lanes of the last pixels of a strip may be empty, but no sums have to be transposed. Strips
    have as many rows as leave the fewest lanes empty, and the last one misses few of them. None
    for machines with many registers too, on which nothing of this has been measured.
    """
    if not machine.has_few_registers:
        return None
    height, tile = _pixel_tile(form, machine)

    def computed(rows: int) -> int:
        """The pixels of strips of so many rows, also those that do not exist."""
        full, rest = divmod(form.height, rows)
        tiles = full * -(-rows * form.width // tile) - (-rest * form.width // tile)
        return tiles * tile

    most = min(form.height, max(1, PIXELS // form.width))
    rows = min(range(most, 0, -1), key=lambda rows: (computed(rows), -form.height % rows))
    inner = form.channels * form.taps
    scattered = SCATTERED if form.taps > 1 else 1.0
    if computed(rows) * inner > form.height * form.width * (inner + TURNED) * scattered:
        return None
    strips = -(-form.height // rows)
    return ImageBlocks(rows, rows * form.width, strips, tile, _filters(form, 1, height))


def flat_blocks(form: ImageProduct, machine: Machine) -> ImageBlocks:
    """
    The blocks of a convolution of images of any sides, with pixels in vectors: as many pixels in
    each strip, wherever rows end.
    """
    height, tile = _pixel_tile(form, machine)
    strip = max(1, PIXELS // tile) * tile
    strips = -(-(form.height * form.width) // strip)
    return ImageBlocks(0, strip, strips, tile, _filters(form, 1, height))


def _pixel_tile(form: ImageProduct, machine: Machine) -> tuple[int, int]:
    """The filters and the pixels of a tile with pixels in vectors."""
    height = tiles_of(form.column.extent, MOST_FILTERS, 1, waiting=False).height
    return height, (machine.registers - 1) // (height + 1) * machine.lanes


def _filters(form: ImageProduct, lanes: int, vectors: int) -> PackedFilters:
    """The weights in panels of so many vectors, in parts of not too many products."""
    channels = even_part(form.channels, DEPTH // form.taps)
    panels = Panels(form.column.extent, channels * form.taps, lanes, vectors)
    return PackedFilters(panels, form.channels // channels, prod(extents(form.groups)))
