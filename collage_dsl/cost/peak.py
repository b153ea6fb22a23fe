"""A lower bound of a kernel's cost, from the peak performance that no CPU core exceeds."""

import os
from dataclasses import dataclass, field
from math import inf, prod

from collage_dsl.cost.traffic import PRODUCTS, bytes_of, is_elementwise, moved_bytes
from collage_dsl.graph import CandidateKernel, Graph, Node, OpSet, TensorType, cores_of, members


@dataclass(frozen=True, slots=True)
class Peak:
    """
    A lower bound of the seconds that a kernel takes, for searches that price kernels late.

        choose(graph, found, cost=measure, lower_bound=Peak())

    It divides the multiplications of convolutions and matrix products, and the bytes of their
    results that leave the kernel, by the most that one core can do in a second. The defaults are
    above what the matrix extensions of today's cores do with 8-bit numbers (1024 multiplications
    a cycle at 5 GHz) and what they store (two vectors of 64 bytes a cycle), so the bound holds on
    any CPU. The numbers of one machine give a tighter bound.

    With `memory`, the bytes that one core moves from and to memory in a second, it also counts
    what kernels read and write. That is for costs measured with cold caches. Written results count
    twice, since a store first reads its cache line. This is a roofline (Williams, Waterman,
    Patterson 2009) with an additional roof for stores.

    To hold for any algorithm, the bound leaves out the window of a convolution (with Fourier
    transforms or Winograd its size hardly matters) and half of the rest (Strassen). Work on
    constants alone is free. So is work that does not reach an exit of the kernel through
    elementwise operators only: for a slice or a sum, part of it may be unnecessary. The
    arithmetic of other operators is free, and only those count as reading and writing that
    cannot return their operand unchanged. Everything is free on a target other than llvm. The
    bound still assumes that no part of a result is known before the kernel runs: no convolution
    reads only padding, and no constant or zero makes work unnecessary.
    """

    multiplications: float = 1e13
    bytes: float = 2e12
    memory: float = inf
    cores: int = field(default_factory=lambda: os.cpu_count() or 1)
    """For targets that do not set `num_cores`."""

    def __call__(self, candidate: CandidateKernel) -> float:
        if candidate.toolchain.kind != "llvm":
            return 0.0
        graph, inside = candidate.graph, candidate.sub_graph.inside
        exits = graph.exit(inside)
        needed = _needed_whole(graph, inside)
        work = stored = 0
        for index in members(needed):
            product = _product(graph, index)
            if product is not None:
                work += product.multiplications
                stored += product.bytes if exits >> index & 1 else 0
        cores = cores_of(candidate.toolchain.options, self.cores)
        moved = moved_bytes(graph, inside, needed)
        roofs = work / 2 / self.multiplications, stored / self.bytes, moved / self.memory
        return max(roofs) / cores


@dataclass(frozen=True, slots=True)
class _Product:
    """The work of a convolution or a matrix product, and the bytes of its result."""

    multiplications: int
    bytes: int


def _needed_whole(graph: Graph, inside: OpSet) -> OpSet:
    """The calls of which every element affects a result of the kernel."""
    needed = graph.exit(inside)
    for index in reversed(list(members(inside))):
        users = graph.users_of[index] & inside & needed
        if any(is_elementwise(graph.nodes[i]) for i in members(users)):
            needed |= 1 << index
    return needed & graph.calls & ~_of_constants(graph, inside)


def _of_constants(graph: Graph, inside: OpSet) -> OpSet:
    """The nodes that can be computed before the kernel runs."""
    known = graph.constants | graph.literals
    for index in members(inside):
        if not graph.inputs_of[index] & ~known:
            known |= 1 << index
    return known


def _product(graph: Graph, index: int) -> _Product | None:
    """The work of a node; None if it is not a convolution or product, or has an unknown shape."""
    node = graph.nodes[index]
    if node.op not in PRODUCTS:
        return None
    types = [node.type, *(graph.nodes[i].type for i in node.inputs[:2])]
    tensors = [each for each in types if isinstance(each, TensorType) and each.is_static]
    if len(tensors) < 3:
        return None
    out, first, second = tensors
    elements = prod(out.static_shape)
    return _Product(elements * _summed(node, first, second), bytes_of(out))


def _summed(node: Node, first: TensorType, second: TensorType) -> int:
    """The number of channels, or elements, that are summed for one element of the result."""
    if node.op == "matmul":
        return first.static_shape[-1] if first.static_shape else 0
    channels = str(node.attrs.get("kernel_layout", "OI")).find("I")
    return second.static_shape[channels] if channels >= 0 else 0
