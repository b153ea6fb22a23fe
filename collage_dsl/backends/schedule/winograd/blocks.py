"""Choose how many tiles are computed together, and how registers are shared among them."""

from __future__ import annotations

from dataclasses import dataclass

from collage_dsl.backends.schedule.machine import Machine
from collage_dsl.backends.schedule.winograd.form import Convolution
from collage_dsl.backends.schedule.winograd.transforms import Tile

CACHED_BYTES = 768 * 1024  # of a 1 MiB second-level cache, for what one block makes in between
RATES = ((384 * 1024, 32.0), (24 << 20, 10.0))  # bytes a cycle from caches of these sizes
MEMORY_RATE = 5.0  # bytes a cycle
VECTORS = 2  # of filters that are summed at once
LATENCY = 5.0  # cycles between two sums in one register
COPY = 1.0  # cycles to copy a number of the image
TRANSFORMS = 8.0  # cycles to transform a tile, for each of its vectors and points
PADDING = 48  # floats between the planes of two points, so that they use other sets of the cache


@dataclass(frozen=True, slots=True)
class Piece:
    """Neighbouring filters in `blocks` of `vectors` vectors. The last block may not be full."""

    first: int
    blocks: int
    vectors: int
    filters: int


@dataclass(frozen=True, slots=True)
class Blocks:
    """
    The sizes of a Winograd convolution in blocks of whole rows of tiles.

    A block transforms `rows` rows of `columns` tiles and multiplies them with all filters of a
    group, `vectors` vectors of filters at a time.
    """

    tile: Tile
    lanes: int
    rows: int
    columns: int
    number: int
    channels: int
    filters: int
    vectors: int
    chunks: tuple[tuple[int, int], ...]

    @property
    def tiles(self) -> int:
        return self.rows * self.columns

    @property
    def channel_blocks(self) -> int:
        return -(-self.channels // self.lanes)

    @property
    def data_plane(self) -> int:
        """The distance of two points in the transformed image of a block."""
        return self.channel_blocks * self.tiles * self.lanes + PADDING

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The filters in blocks of `vectors` vectors, and the rest in a smaller block."""
        size = self.vectors * self.lanes
        full, rest = divmod(self.filters, size)
        pieces = [Piece(0, full, self.vectors, full * size)] * (full > 0)
        if rest:
            pieces.append(Piece(full * size, 1, -(-rest // self.lanes), rest))
        return tuple(pieces)

    @property
    def packed(self) -> int:
        """The number of transformed weights of one group, with zeros after the last filter."""
        vectors = -(-self.filters // self.lanes)
        return vectors * self.lanes * self.channels * self.tile.points


def blocks_of(form: Convolution, tile: Tile, machine: Machine) -> Blocks:
    """The cheapest blocks, the smaller ones among equals."""
    height = -(-form.height // tile.down.outputs)
    columns = -(-form.width // tile.across.outputs)
    sizes = sorted({-(-height // parts) for parts in range(1, height + 1)})
    vectors = min(VECTORS, -(-form.filters // machine.lanes))
    candidates = [
        Blocks(
            tile,
            machine.lanes,
            rows,
            columns,
            -(-height // rows),
            form.channels,
            form.filters,
            vectors,
            _chunks(rows * columns, vectors, machine),
        )
        for rows in sizes
    ]
    return min(candidates, key=_cost)


def _cost(blocks: Blocks) -> float:
    """
    Cycles for all blocks.

    The weights stream through the processor once for each block: the first time from memory, later
    from the cache that holds them. That goes on while it computes. What a block makes in between
    should stay in the second-level cache.
    """
    steps = blocks.channels * blocks.tile.points * -(-blocks.filters // blocks.lanes)
    summing = sum(count * max(size, LATENCY / blocks.vectors) for size, count in blocks.chunks)
    work = steps * (summing + TRANSFORMS * blocks.tiles / blocks.channels)
    read = 4 * blocks.packed
    again = read / _rate(read)
    first = max(work, read / MEMORY_RATE) + 0.2 * min(work, read / MEMORY_RATE)
    later = max(work, again) + 0.2 * min(work, again)
    tile = blocks.tile
    rows = blocks.rows * tile.down.outputs + tile.down.taps - 1
    columns = blocks.columns * tile.across.outputs
    copied = COPY * rows * columns * blocks.channels
    return first + (blocks.number - 1) * later + blocks.number * (copied + _spilled(blocks))


def _spilled(blocks: Blocks) -> float:
    """Cycles to write and read again what does not stay in the second-level cache."""
    width = blocks.vectors * blocks.lanes
    passes = -(-blocks.filters // width)
    data = 4 * blocks.tile.points * blocks.data_plane
    products = 4 * blocks.tile.points * blocks.tiles * width
    outside = max(0.0, 1 - CACHED_BYTES / (data + products))
    return outside * (data * (2 + passes) + 2 * products * passes) / RATES[1][1]


def _rate(size: int) -> float:
    """The bytes a cycle at which `size` bytes are read again and again."""
    return next((rate for most, rate in RATES if size <= most), MEMORY_RATE)


def _chunks(tiles: int, vectors: int, machine: Machine) -> tuple[tuple[int, int], ...]:
    """
    The tiles that are summed in registers at once: sizes, and how often each.

    Registers hold the sums of these tiles, the weights, and a number that is multiplied.
    """
    most = (machine.registers - vectors - 2) // vectors
    count = -(-tiles // most)
    size, larger = divmod(tiles, count)
    return (*[(size + 1, larger)] * (larger > 0), (size, count - larger))
