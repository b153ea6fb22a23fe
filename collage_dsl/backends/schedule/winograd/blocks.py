"""Choose how many tiles are computed together, and how registers are shared among them."""

from __future__ import annotations

from dataclasses import dataclass

from collage_dsl.backends.schedule.machine import Machine
from collage_dsl.backends.schedule.winograd.form import Convolution
from collage_dsl.backends.schedule.winograd.transforms import Tile

CACHED_BYTES = 640 * 1024  # of a 1 MiB second-level cache, for what one block computes
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
    """The largest blocks that stay in the cache; all at once if the weights are larger still."""
    height = -(-form.height // tile.down.outputs)
    columns = -(-form.width // tile.across.outputs)
    weights = 4 * tile.points * form.channels * form.filters
    best: tuple[float, Blocks] | None = None
    for rows in sorted({-(-height // parts) for parts in range(1, height + 1)}, reverse=True):
        number = -(-height // rows)
        vectors, chunks = _chunks(rows * columns, machine)
        blocks = Blocks(
            tile,
            machine.lanes,
            rows,
            columns,
            number,
            form.channels,
            form.filters,
            vectors,
            chunks,
        )
        cost = _cost(blocks, weights)
        if best is None or cost < best[0]:
            best = cost, blocks
    assert best is not None
    return best[1]


def _cost(blocks: Blocks, weights: int) -> float:
    """Cycles: products, and what is read again from a cache that is further away."""
    points = blocks.tile.points
    products = points * blocks.channels * blocks.filters * blocks.tiles / blocks.lanes
    block = 4 * points * blocks.tiles * (blocks.channels + blocks.vectors * blocks.lanes)
    again = 0.0
    if block > CACHED_BYTES:
        passes = -(-blocks.filters // (blocks.vectors * blocks.lanes))
        again = 4 * points * blocks.tiles * blocks.channels * passes / 16
    reading = weights / (32 if weights < CACHED_BYTES else 8 if weights < 8 << 20 else 4)
    return blocks.number * (max(products, reading) + 0.5 * min(products, reading) + again)


def _chunks(tiles: int, machine: Machine) -> tuple[int, tuple[tuple[int, int], ...]]:
    """The vectors of filters, and the tiles summed in registers at once: sizes with counts."""
    wide, narrow = _most(2, machine), _most(1, machine)
    vectors = 1 if wide < tiles <= narrow else 2
    most = narrow if vectors == 1 else wide
    count = -(-tiles // most)
    size, larger = divmod(tiles, count)
    parts = [(size + 1, larger)] * (larger > 0) + [(size, count - larger)]
    return vectors, tuple(parts)


def _most(vectors: int, machine: Machine) -> int:
    """The most tiles for which sums, weights and a spare register fit."""
    return (
        (machine.registers - 4) // vectors
        if vectors == 1
        else ((machine.registers - vectors - 2) // vectors)
    )
