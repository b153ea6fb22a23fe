"""Choose the sizes of tiles from shapes and the machine, with a small cost model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from math import gcd

from collage_dsl.backends.schedule.expressions import Expr
from collage_dsl.backends.schedule.loops import Stmt, unrolled
from collage_dsl.backends.schedule.machine import Machine
from collage_dsl.backends.schedule.packing import Packed

PACKED_BYTES = 448 * 1024  # of a 1 MiB second-level cache; the rest is for weights and output
PACKING = 2.0  # cycles to pack a vector
CHANNELS = 512  # the most packed at once, so that some rows of the other operand stay in L1
ALIASED_BYTES = 4096
TILE_OVERHEAD = 24.0  # cycles to start, spill and finish a register tile


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """Rows and vectors of output that are accumulated in registers at once."""

    rows: int
    vectors: int

    def place(self, row: Expr, vector: Expr, lanes: int) -> Expr:
        """Where a vector of a row begins in a buffer of all."""
        return (row * self.vectors + vector) * lanes

    def each(self, body: Callable[[Expr, Expr], Stmt]) -> Stmt:
        """`body` for each vector of each row, written out."""
        return unrolled(self.rows, lambda i: unrolled(self.vectors, lambda j: body(i, j)))


def most_rows(stride: int) -> int:
    """
    The most rows, `stride` floats apart, that can be read at the same time without evicting each
    other from the first-level cache.

    Addresses at multiples of 4 KiB share the same eight cache ways; rows may use four of them.
    """
    return min(16, 4 * (ALIASED_BYTES // gcd(4 * stride, ALIASED_BYTES)))


@cache
def register_tile(
    rows: int, vectors: int, steps: int, sliding: bool, most: int, machine: Machine
) -> tuple[RegisterTile, float]:
    """
    The cheapest register tile for `rows` by `vectors` accumulated over `steps`, and its cycles.

    One step of an `a` by `b` tile takes `a * b` multiplications or its reads, whichever is longer.
    Reads are `b` vectors, counted twice if they cross cache lines, and `a` broadcast scalars, of
    which a machine reads one or two in the time of a multiplication. With fewer than eight
    accumulators the multipliers wait. A tile has at most `most` rows.
    """
    best: tuple[float, RegisterTile] | None = None
    for tile in _tiles(min(rows, most), vectors, machine):
        cycles = 0.0
        for a, many in _chunks(rows, tile.rows):
            for b, times in _chunks(vectors, tile.vectors):
                step = max(a * b, 8, b * (2 if sliding else 1) + a / machine.broadcasts)
                cycles += many * times * (step * steps + TILE_OVERHEAD)
        bodies = len(_chunks(rows, tile.rows)) * len(_chunks(vectors, tile.vectors))
        cycles *= 1 + 0.01 * bodies
        if best is None or cycles < best[0]:
            best = cycles, tile
    assert best is not None
    return best[1], best[0]


def _tiles(rows: int, vectors: int, machine: Machine) -> Iterator[RegisterTile]:
    for a in range(1, rows + 1):
        room = (machine.registers - 1) // (a + 1)
        for b in range(max(1, min(room, vectors) - 5), min(room, vectors) + 1):
            yield RegisterTile(a, b)


def _chunks(total: int, size: int) -> list[tuple[int, int]]:
    """The sizes of the pieces of `total`, and the number of pieces of each size."""
    full, rest = divmod(total, size)
    return [(size, full)] * (full > 0) + [(rest, 1)] * (rest > 0)


def packed_tile(
    whole: Packed,
    rows: int,
    tile_and_cycles: Callable[[Packed], tuple[RegisterTile, float]],
    *,
    cut: bool = True,
) -> Packed:
    """
    The tile of the output that is computed from one packed buffer, and the channels in the buffer.

    It is the cheapest one per element whose packed operand stays in the cache. The cost includes
    halos packed twice, vectors that the tile does not fill, and sums that are stored and loaded
    again if the channels do not fit at once. All channels are in the buffer unless `cut`.
    """
    best: tuple[float, Packed] | None = None
    for shape in _candidates(whole):
        channels = _channels(shape, rows) if cut else whole.channels
        tile = replace(shape, channels=channels)
        if not cut and best is not None and 4 * tile.size > PACKED_BYTES:
            continue
        parts = whole.channels // channels
        _, cycles = tile_and_cycles(tile)
        packing = PACKING * tile.size / whole.lanes
        resuming = 0 if parts == 1 else 4.0 * rows * tile.vectors
        times = -(-whole.height // tile.height) * -(-whole.width // tile.width)
        cost = times * parts * (cycles + packing + resuming)
        if best is None or cost < best[0]:
            best = cost, tile
    assert best is not None
    return best[1]


def _channels(tile: Packed, rows: int) -> int:
    """
    The largest divisor of the channels for which the packed operand stays in the cache.

    With a single row, CHANNELS is no limit: the packed operand is read only once.
    """
    most = PACKED_BYTES // (4 * tile.phases * tile.plane)
    if rows > 1:
        most = min(most, CHANNELS)
    fitting = (c for c in range(min(most, tile.channels), 0, -1) if tile.channels % c == 0)
    return next(fitting, 1)


def _candidates(whole: Packed) -> Iterator[Packed]:
    """Possible tiles, from the smallest to the largest."""
    if whole.height > 1:
        heights = {-(-whole.height // parts) for parts in range(1, whole.height + 1)}
        for height in sorted(heights):
            yield replace(whole, height=height)
        return
    for vectors in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32):
        if vectors * whole.lanes < whole.width:
            yield replace(whole, width=vectors * whole.lanes)
    if whole.width <= 32 * whole.lanes or whole.x.taps:
        yield whole
