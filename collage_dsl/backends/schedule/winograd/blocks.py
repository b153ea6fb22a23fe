"""The sizes of what a Winograd convolution computes together."""

from __future__ import annotations

from dataclasses import dataclass

from collage_dsl.backends.schedule.winograd.transforms import Tile

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
    width: int
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
