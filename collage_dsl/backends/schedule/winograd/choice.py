"""Choose the blocks of a Winograd convolution by a cost model, in cycles."""

from __future__ import annotations

from collage_dsl.backends.schedule.machine import Machine
from collage_dsl.backends.schedule.winograd.blocks import Blocks
from collage_dsl.backends.schedule.winograd.form import Convolution
from collage_dsl.backends.schedule.winograd.transforms import Tile

CACHED_BYTES = 768 * 1024  # of a 1 MiB second-level cache, for what one block makes in between
SHARED_BYTES = 16 << 20  # of the last-level cache, for the image and the result
RATES = ((384 * 1024, 32.0), (12 << 20, 10.0))  # bytes a cycle from caches of these sizes
SPILL_RATE = 20.0  # bytes a cycle to and from the last-level cache
MEMORY_RATE = 5.0  # bytes a cycle
VECTORS = 2  # of filters that are summed at once
LATENCY = 5.0  # cycles between two sums in one register
COPY = 0.4  # cycles to copy a number of the image
TRANSFORMS = 8.0  # cycles to transform a tile, for each of its vectors and points
HIDDEN = 0.8  # the part of reading that takes no time while something else is computed
START = (40.0, 2500.0)  # cycles before a plane of an image is read on, from cache and from memory


def blocks_of(form: Convolution, tile: Tile, machine: Machine) -> Blocks:
    """The cheapest blocks, the smaller ones among equals."""
    height = -(-form.height // tile.down.outputs)
    columns = -(-form.width // tile.across.outputs)
    sizes = sorted({-(-height // parts) for parts in range(1, height + 1)})
    vectors = min(VECTORS, -(-form.group_filters // machine.lanes))
    candidates = [
        Blocks(
            tile,
            machine.lanes,
            rows,
            columns,
            -(-height // rows),
            form.width,
            form.channels,
            form.group_filters,
            vectors,
            _chunks(rows * columns, vectors, machine),
        )
        for rows in sizes
    ]
    return min(candidates, key=_cycles)


def _chunks(tiles: int, vectors: int, machine: Machine) -> tuple[tuple[int, int], ...]:
    """
    The tiles that are summed in registers at once: sizes, and how often each.

    Registers hold the sums of these tiles, the weights, and a number that is multiplied.
    """
    most = (machine.registers - vectors - 2) // vectors
    count = -(-tiles // most)
    size, larger = divmod(tiles, count)
    return (*[(size + 1, larger)] * (larger > 0), (size, count - larger))


def _cycles(blocks: Blocks) -> float:
    """
    Cycles for all blocks.

    The weights stream through the processor once for each block: the first time from memory, later
    from the cache that holds them. That goes on while it computes. What a block makes in between
    should stay in the second-level cache, and costs something the first time that it is touched.
    """
    read = 4 * blocks.packed
    work = _work(blocks)
    first, again = read / MEMORY_RATE, read / _rate(read)
    once = _together(work, first) + 2 * _scratch(blocks) / MEMORY_RATE
    each = _started(blocks) + _spilled(blocks)
    return once + (blocks.number - 1) * _together(work, again) + blocks.number * each


def _work(blocks: Blocks) -> float:
    """Cycles to compute a block: copies, transforms and sums."""
    tile = blocks.tile
    steps = blocks.channels * tile.points * -(-blocks.filters // blocks.lanes)
    summing = sum(count * max(size, LATENCY / blocks.vectors) for size, count in blocks.chunks)
    rows = blocks.rows * tile.down.outputs + tile.down.taps - 1
    copying = COPY * rows * blocks.width * blocks.channels
    return steps * (summing + TRANSFORMS * blocks.tiles / blocks.channels) + copying


def _together(work: float, reading: float) -> float:
    """Cycles to compute and to read at the same time."""
    return max(work, reading) + (1 - HIDDEN) * min(work, reading)


def _scratch(blocks: Blocks) -> int:
    """The bytes that a block makes in between: the transformed image, and the products."""
    width = blocks.vectors * blocks.lanes
    return 4 * blocks.tile.points * (blocks.data_plane + blocks.tiles * width)


def _spilled(blocks: Blocks) -> float:
    """Cycles to write and read again what does not stay in the second-level cache."""
    width = blocks.vectors * blocks.lanes
    passes = -(-blocks.filters // width)
    size = _scratch(blocks)
    products = 4 * blocks.tile.points * blocks.tiles * width
    outside = max(0.0, 1 - CACHED_BYTES / size)
    return outside * ((size - products) * (2 + passes) + 2 * products * passes) / SPILL_RATE


def _started(blocks: Blocks) -> float:
    """Cycles to begin reading and writing at a new place in each plane of the image and result."""
    planes = blocks.channels + blocks.filters
    height = blocks.number * blocks.rows * blocks.tile.down.outputs
    far = 4 * planes * height * blocks.width > SHARED_BYTES
    return planes * START[far]


def _rate(size: int) -> float:
    """The bytes a cycle at which `size` bytes are read again and again."""
    return next((rate for most, rate in RATES if size <= most), MEMORY_RATE)
