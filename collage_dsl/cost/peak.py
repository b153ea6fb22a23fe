"""What a kernel costs at the least, from what no core can do."""

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

    It counts the multiplications of convolutions and matrix products, and the bytes of their
    results that leave the kernel, against what one core does in a second and never more.
    The defaults are above what the matrix extensions of today's cores do with 8-bit numbers
    (1024 multiplications a cycle at 5 GHz) and what they store (two vectors of 64 bytes a
    cycle), so that they hold on any CPU; with those of one machine the bound says more.

    With `memory`, the bytes that one core moves from and to memory, it counts what kernels read
    and write too: for costs that are measured with cold caches, as those of `MeasuredCost` are.
    What is computed counts twice where it is written, since a store first reads its line. That
    is a roofline (Williams, Waterman, Patterson 2009), with a roof for the stores besides.

    So that it holds for any algorithm, the window of a convolution is not counted (by Fourier
    transforms or Winograd's, its size hardly matters), and half of the rest (Strassen). What
    is computed of constants alone is free, and so is what elementwise operators do not lead
    out of the kernel: of a slice or a sum, less may have to be computed. Other operators
    compute for nothing, and only those are taken to read and write that cannot return their
    operand as it is. All is free on a target other than llvm. What is left to assume is that no
    part of a result is known before the kernel runs: that no convolution reads padding alone,
    and no constant or zero makes its work needless.
    """

    multiplications: float = 1e13
    bytes: float = 2e12
    memory: float = inf
    cores: int = field(default_factory=lambda: os.cpu_count() or 1)
    """Used by targets that do not say how many they may use."""

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
    """What a convolution or a matrix product takes."""

    multiplications: int
    bytes: int


def _needed_whole(graph: Graph, inside: OpSet) -> OpSet:
    """The calls whose every element decides about a result of the kernel."""
    needed = graph.exit(inside)
    for index in reversed(list(members(inside))):
        users = graph.users_of[index] & inside & needed
        if any(is_elementwise(graph.nodes[i]) for i in members(users)):
            needed |= 1 << index
    return needed & graph.calls & ~_of_constants(graph, inside)


def _of_constants(graph: Graph, inside: OpSet) -> OpSet:
    """What can be computed before the kernel runs."""
    known = graph.constants | graph.literals
    for index in members(inside):
        if not graph.inputs_of[index] & ~known:
            known |= 1 << index
    return known


def _product(graph: Graph, index: int) -> _Product | None:
    """None where the node is no such call, or has an unknown shape."""
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
    """Over how many channels, or elements, each element of the result is summed."""
    if node.op == "matmul":
        return first.static_shape[-1] if first.static_shape else 0
    channels = str(node.attrs.get("kernel_layout", "OI")).find("I")
    return second.static_shape[channels] if channels >= 0 else 0
