"""How much memory a model uses in a run, which decides what its kernels find in the caches."""

from math import ceil, log2

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

    For a model that uses at most half of the last-level cache, the next power of two. For a larger
    one, the part `_READ` of it, rounded to a quarter of the cache: a part of its data is still in
    the caches when a run needs it again. At most twice the cache, of which nothing is left then.
    The `cache` has so many bytes, by default as here.
    """
    cache = cache or last_level_cache_bytes()
    if count <= cache // 2:
        return 1 << ceil(log2(max(count, _LEAST)))
    quarters = round(4 * _READ * count / cache)
    return min(max(quarters, 2), 8) * cache // 4


_READ = 0.7
"""
With this part, kernels take about what they take in their plan: `benchmarks/displaced.py` shows it.
"""


def _bytes(type_: TensorType, sizes: Sizes) -> int:
    dims = tuple(size_of(dim, sizes) for dim in type_.shape or ())
    return TensorType(type_.dtype, dims).bytes or 0
