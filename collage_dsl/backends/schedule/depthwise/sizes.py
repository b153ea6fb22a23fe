"""How a block of convolutions is cut into strips of rows, chunks of channels and register tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from collage_dsl.backends.schedule.depthwise.form import Block
from collage_dsl.backends.schedule.machine import Machine
from collage_dsl.backends.schedule.scheduled import VariantError

STRIP_BYTES = 512 * 1024  # of a 1 MiB second-level cache, for all that a strip keeps
NEAR_BYTES = 16 * 1024  # of a 32 KiB first-level cache, for what goes into the last sums
TILE_START = 24.0  # cycles to begin and end a register tile
WINDOW_BYTES = 36 * 1024  # of the rows that a window reaches, for a chunk of channels
MOST_VECTORS = 3  # of a register tile
MOST_PIXELS = 16  # of a register tile
READ = 0.3  # what a read adds to the multiplications of a tile, which hide most of it
WINDOW_PRODUCTS = 160  # the most multiplications in the code of one tile of the windows


@dataclass(frozen=True, slots=True)
class Tile:
    """Sums in registers: `pixels` times `vectors` of `lanes` channels."""

    pixels: int
    vectors: int
    lanes: int

    @property
    def width(self) -> int:
        return self.vectors * self.lanes


@dataclass(frozen=True)
class Sizes:
    """
    The sizes of a block. A strip has `height` rows of the depthwise result, and is computed for
    `first.width` channels after the other. The last sums take `rows` rows at a time.
    """

    block: Block
    height: int
    rows: int
    first: Tile
    last: Tile | None
    machine: Machine

    @property
    def strips(self) -> int:
        return -(-self.block.depthwise.height // self.height)

    @property
    def width(self) -> int:
        """The channels of a chunk."""
        return self.first.width

    @property
    def chunks(self) -> int:
        return self.block.depthwise.filters // self.width

    @cached_property
    def taken_rows(self) -> int:
        """The rows that the windows of a strip reach."""
        part = self.block.depthwise
        return (self.height - 1) * part.stride + part.taps[0]

    @cached_property
    def pitch(self) -> int:
        """The columns of a row that the windows reach, also in the padding."""
        part = self.block.depthwise
        inside = part.source.upper[3] - part.left
        return max(inside, (part.width - 1) * part.stride + part.taps[1])

    @property
    def window_pixels(self) -> int:
        """The pixels of a tile of the windows."""
        part = self.block.depthwise
        most = min(14, max(1, WINDOW_PRODUCTS // (part.taps[0] * part.taps[1])), part.width)
        return -(-part.width // -(-part.width // most))

    @property
    def pixels(self) -> int:
        return self.height * self.block.depthwise.width

    @property
    def sums_pixels(self) -> int:
        """The pixels of a strip, and those with which the last tiles are full."""
        unit = self.last.pixels if self.last else 1
        near = self.rows * self.block.depthwise.width
        whole = self.pixels - near + -(-near // unit) * unit
        return -(-whole // self.machine.lanes) * self.machine.lanes

    @property
    def panels(self) -> int:
        """The number of panels of the last weights."""
        assert self.last
        assert self.block.last
        return -(-self.block.last.filters // self.last.width)

    @property
    def bytes(self) -> int:
        read = self.taken_rows * self.pitch * self.width
        near = self.rows * self.block.depthwise.width * self.width
        sums = self.pixels * self.panels * self.last.width if self.last else 0
        return 4 * (read + near + sums)


def sizes_of(block: Block, machine: Machine) -> Sizes:
    """The sizes that take the least time."""
    filters = block.depthwise.filters
    lanes = next((n for n in (16, 8, 4) if n <= machine.lanes and filters % n == 0), None)
    if lanes is None:
        raise VariantError(f"{filters} channels are no whole vectors")
    first, last = min(_tiles(block, lanes, machine), key=lambda pair: _cost(block, *pair))
    return next(_heights(block, first, last, machine))


def _heights(block: Block, first: Tile, last: Tile | None, machine: Machine) -> Iterator[Sizes]:
    """The sizes for the highest strips that fit the cache and give each core one, then others."""
    height = block.depthwise.height
    for parts in range(min(machine.cores, height), height + 1):
        strip = -(-height // parts)
        rows = _rows(block, strip, first.width) if last else strip
        sizes = Sizes(block, strip, rows, first, last, machine)
        if sizes.bytes <= STRIP_BYTES or strip == 1:
            yield sizes


def _rows(block: Block, height: int, channels: int) -> int:
    """The most rows, of a strip cut evenly, that fit the first-level cache."""
    size = 4 * block.depthwise.width * channels
    return max(
        n for n in range(1, height + 1) if height % n == 0 and (n == 1 or n * size <= NEAR_BYTES)
    )


def _tiles(block: Block, lanes: int, machine: Machine) -> Iterator[tuple[Tile, Tile | None]]:
    part = block.depthwise
    width = part.source.upper[3] - part.source.lower[3]
    for vectors in range(1, MOST_VECTORS + 1):
        reach = 4 * part.taps[0] * part.source.upper[3] * vectors * lanes
        if (part.filters // lanes) % vectors or (vectors > 1 and reach > WINDOW_BYTES):
            continue
        for pixels in range(1, min(width, _most(vectors, machine)) + 1):
            first = Tile(pixels, vectors, lanes)
            for last in _last_tiles(block, machine):
                yield first, last


def _last_tiles(block: Block, machine: Machine) -> Iterator[Tile | None]:
    """The tiles of the last sums; None if there are none."""
    if block.last is None:
        yield None
        return
    for lanes in {machine.lanes, max(4, machine.lanes // 2)}:
        for vectors in range(1, min(MOST_VECTORS, -(-block.last.filters // lanes)) + 1):
            for pixels in range(1, _most(vectors, machine) + 1):
                yield Tile(pixels, vectors, lanes)


def _most(vectors: int, machine: Machine) -> int:
    """The most pixels of a tile: its sums and a row of weights fit the registers."""
    return min(MOST_PIXELS, max(1, (machine.registers - 1) // vectors - 1))


def _cost(block: Block, first: Tile, last: Tile | None) -> float:
    """Cycles for an image, roughly."""
    part = block.depthwise
    chunks = part.filters // first.width
    total = 0.0
    if block.first:
        tiles = -(-block.first.width // first.pixels) * block.first.height * chunks
        total += tiles * _cycles(first, block.first.channels)
    if last and block.last:
        near = part.width * _rows(block, part.height, first.width)
        groups = part.width * part.height / near
        panels = -(-block.last.filters // last.width)
        total += (
            -(-near // last.pixels)
            * groups
            * chunks
            * panels
            * (_cycles(last, first.width) + 3 * last.pixels * last.vectors)
        )
    return total


def _cycles(tile: Tile, steps: int) -> float:
    products = tile.pixels * tile.vectors * min(1.0, tile.lanes / 16)
    reads = tile.pixels / 2 + tile.vectors
    return (max(products, 8.0) + READ * reads) * steps + TILE_START
