"""How a matrix product is cut into blocks that fit the registers and the caches of a machine."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod

from collage_dsl.backends.schedule.gemm.form import Product
from collage_dsl.backends.schedule.gemm.panels import Panels
from collage_dsl.backends.schedule.machine import Machine
from collage_dsl.backends.schedule.sizes import is_known, typical
from collage_dsl.backends.schedule.stages import extents

STRIP_BYTES = 192 * 1024  # of the rows of a strip, which stay in the second-level cache
WAITING = 224  # rows of a strip whose sums wait in the first-level cache until they are transposed
TILE_START = 0.6  # the time to begin and end a tile, in rows
OTHERS = 4  # registers that hold no sums: weights, and the scalar of a row
FEW_ROWS = 6  # with so few rows, twice as many vectors of columns fit the registers
WHOLE = 2048  # the most products that are summed at once: more rows in a strip read weights less
DEPTH = 768  # the most products that are summed before the sums are stored, if there are more


@dataclass(frozen=True, slots=True)
class Tiles:
    """
    `rows` in strips of `tiles` tiles of `height` rows; the last strip may have fewer tiles.

    The last tile may have rows that do not exist. It computes them, so that all tiles run the same
    loop: LLVM spills registers where a function has this loop several times for different heights.
    """

    rows: int
    height: int
    tiles: int

    @property
    def strip(self) -> int:
        """The rows of a strip, also those that do not exist."""
        return self.height * self.tiles

    @property
    def strips(self) -> int:
        return -(-self.rows // self.strip)

    @property
    def last(self) -> int:
        """The rows of the last strip that exist."""
        return self.rows - (self.strips - 1) * self.strip

    @property
    def last_tiles(self) -> int:
        return -(-self.last // self.height)


def tiles_of(rows: int, most: int, inner: int, waiting: bool, least: int = 1) -> Tiles:
    """
    The tiles of at most `most` rows that take the least time, in equal strips: in `least` strips or
    a multiple, if there are so many tiles.

    Each row has `inner` elements. The sums of a whole strip are kept if they are `waiting`.
    """

    count = typical(rows)

    def cost(height: int) -> float:
        return -(-count // height) * (height + TILE_START)

    height = min(range(min(count, most), 0, -1), key=cost)
    limit = STRIP_BYTES // (4 * typical(inner))
    if waiting:
        limit = min(limit, WAITING)
    tiles = -(-count // height)
    strips = -(-tiles // max(1, limit // height))
    strips = min(tiles, -(-strips // least) * least)
    return Tiles(rows, height, -(-tiles // strips))


@dataclass(frozen=True, slots=True)
class Blocks:
    """
    The tiles of the rows, and the panels of the columns. `depth` products are summed before the
    sums are stored.
    """

    tiles: Tiles
    panels: Panels
    depth: int

    @property
    def parts(self) -> int:
        """How often the sums are stored."""
        return self.panels.inner // self.depth


def blocks_of(form: Product, machine: Machine) -> Blocks:
    """The blocks in which a machine computes a product."""
    rows, inner = prod(extents(form.rows)), form.inner.extent
    is_cut = is_known(inner) and rows > FEW_ROWS and inner > WHOLE
    depth = even_part(inner, DEPTH) if is_cut else inner
    tiles, vectors = tiles_and_vectors(form, machine, depth)
    return Blocks(tiles, Panels(form.column.extent, inner, machine.lanes, vectors), depth)


def tiles_and_vectors(form: Product, machine: Machine, depth: int) -> tuple[Tiles, int]:
    """The tiles of the rows, each of `depth` steps of 4 bytes, and the vectors of a panel."""
    rows = prod(extents(form.rows))
    vectors = 2 if rows > FEW_ROWS else 4
    most = max(1, (machine.registers - OTHERS) // vectors)
    return row_tiles(form, machine, depth, most), vectors


def row_tiles(form: Product, machine: Machine, depth: int, most: int) -> Tiles:
    """The tiles of at most `most` rows, each of `depth` steps of 4 bytes."""
    rows = prod(extents(form.rows))
    least = machine.cores // gcd(prod(map(typical, extents(form.batch))), machine.cores)
    return tiles_of(rows, most, depth, form.by_columns, least)


def even_part(number: int, most: int) -> int:
    """
    The largest part of at most `most` into which `number` can be cut evenly; `number` itself if
    all of these are less than half of `most`.
    """
    parts = range(min(number, most), most // 2, -1)
    return next((part for part in parts if number % part == 0), number)
