"""How much memory a model uses in a run, which decides what its kernels find in the caches."""

from collections.abc import Iterable
from itertools import accumulate
from math import ceil, log2

from collage_dsl.graph import (
    CandidateKernel,
    Extract,
    Form,
    Graph,
    TensorType,
    first,
    members,
    tensors,
)
from collage_dsl.graph.sizes import Sizes, size_of
from collage_dsl.measuring.processor import last_level_cache_bytes

_LEAST = 1 << 20


Far = tuple[str, ...]
"""
What of a kernel was last used one run ago, as its weights were: its `operands`, its `results`, or
both. Otherwise kernels before it in the same run just wrote these, or used the memory of those.
"""


class Distances:
    """How far from the processor what the kernels of a model use is when they begin."""

    def __init__(self, graph: Graph, sizes: Sizes, cache: int | None = None) -> None:
        self.others = displaced(footprint(graph, sizes), cache)
        """The bytes that the model reads between two runs of a kernel."""
        self._graph, self._sizes = graph, sizes
        made = (self._largest([i] if graph.calls >> i & 1 else []) for i in range(len(graph.nodes)))
        self._until = [0, *accumulate(made, max)]
        """By node, the bytes of the largest tensor of the calls before it."""

    def far(self, candidate: CandidateKernel, kernel: Extract) -> Far:
        """
        What of a candidate, and so of its `kernel`, was last used one run ago: operands, if they
        are inputs of the model or constants; and results, if one is larger than all tensors before.
        """
        nodes, begins = self._graph.nodes, first(candidate.sub_graph.inside & self._graph.calls)
        are_given = all(nodes[i].form in (Form.INPUT, Form.CONSTANT) for i in kernel.arguments)
        is_new = self._largest(kernel.results) > self._until[begins]
        return (*(["operands"] if are_given else []), *(["results"] if is_new else []))

    def _largest(self, nodes: Iterable[int]) -> int:
        every = (tensors(self._graph.nodes[index].type) for index in nodes)
        return max((_bytes(each, self._sizes) for types in every for each in types), default=0)


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
