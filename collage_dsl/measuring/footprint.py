"""How much memory a model uses in a run, which decides what its kernels find in the caches."""

from math import ceil, log2

from collage_dsl.graph import Graph, TensorType, members, tensors
from collage_dsl.graph.sizes import Sizes, size_of
from collage_dsl.measuring.processor import last_level_cache_bytes

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
    How many bytes to read between two runs of a kernel, for a model that uses `count`: the next
    power of two, so that models of about the same size share costs, and at most `_MOST_READ` of the
    last-level cache. The `cache` has so many bytes, by default as here.
    """
    most = int(_MOST_READ * (cache or last_level_cache_bytes()))
    return min(1 << ceil(log2(max(count, _LEAST))), most)


_MOST_READ = 7 / 8
"""
With this part, the kernels of larger models take about what they take in their plan. After more is
read, a kernel finds less in the caches than in its model: `benchmarks/displaced.py` shows it.
"""


def _bytes(type_: TensorType, sizes: Sizes) -> int:
    dims = tuple(size_of(dim, sizes) for dim in type_.shape or ())
    return TensorType(type_.dtype, dims).bytes or 0
