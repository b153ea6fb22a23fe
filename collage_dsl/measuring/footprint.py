"""How much memory a model uses in a run, which decides what its kernels find in the caches."""

from math import ceil, exp, log2

from collage_dsl.graph import Graph, TensorType, members, tensors
from collage_dsl.graph.sizes import Sizes, size_of
from collage_dsl.measuring.timing import last_level_cache_bytes

_LEAST = 1 << 20


def footprint(graph: Graph, sizes: Sizes) -> int:
    """
    The bytes of all constants, and of what the call with the largest operands and results takes and
    gives. Tensors of sizes that are not known do not count.
    """

    def count(index: int) -> int:
        return sum(_bytes(type_, sizes) for type_ in tensors(graph.nodes[index].type))

    used = (i for i in members(graph.constants) if graph.users_of[i])
    constants = sum(map(count, used))
    moved = (
        count(call) + sum(count(i) for i in members(graph.inputs_of[call] & ~graph.constants))
        for call in members(graph.calls)
    )
    return constants + max(moved, default=0)


def displaced(count: int, cache: int | None = None) -> int:
    """
    How many bytes to read between two runs of a kernel, for a model that uses `count`. Models of
    about the same size get the same number, so that they share costs.

    For a model that fits in the last-level cache, the next power of two, but at most half of the
    cache: what reads of one kernel displace is not all that was there before, since caches do not
    always replace what was used least recently. A larger model displaces what it misses in a run,
    rounded to a quarter of the cache; at most twice the cache, of which nothing is left then.
    The `cache` has so many bytes, by default as here.
    """
    cache = cache or last_level_cache_bytes()
    if count <= cache:
        return min(1 << ceil(log2(max(count, _LEAST))), cache // 2)
    quarters = round(4 * count * missed(count / cache) / cache)
    return min(max(quarters, 2), 8) * cache // 4


def missed(size: float) -> float:
    """
    The part of the accesses that miss, where the same data is read again and again, in the same
    order, which is `size` times as large as a cache that replaces any of its lines by chance.

    A line stays while n others are replaced with the probability exp(-n / lines). Between two reads
    of a line, the misses among all other reads are replaced: `m = 1 - exp(-size * m)`.
    """
    part = 1.0
    for _ in range(100):
        part = 1 - exp(-size * part)
    return part


def _bytes(type_: TensorType, sizes: Sizes) -> int:
    dims = tuple(size_of(dim, sizes) for dim in type_.shape or ())
    return TensorType(type_.dtype, dims).bytes or 0
