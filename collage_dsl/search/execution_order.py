"""Put kernels in an order in which they can run, or find that they wait for each other."""

from collections.abc import Mapping, Sequence

from collage_dsl.graph import CandidateKernel, Graph
from collage_dsl.graph.topological import in_topological_order


class CyclicPlanError(Exception):
    """Kernels that wait for each other's results."""


def in_execution_order(
    graph: Graph, kernels: Sequence[CandidateKernel]
) -> tuple[CandidateKernel, ...]:
    """
    `kernels` in an order in which each comes after the kernels whose results it needs. If
    several can come next, the one with the first node does. Raises `CyclicPlanError` if there
    is no such order.
    """
    waiting = sorted(kernels, key=lambda kernel: kernel.sub_graph.order)
    order = in_topological_order(producers(graph, waiting))
    if len(order) < len(waiting):
        left = set(range(len(waiting))) - set(order)
        raise CyclicPlanError("kernels " + ", ".join(waiting[i].label for i in sorted(left)))
    return tuple(waiting[i] for i in order)


def is_acyclic(graph: Graph, kernels: Sequence[CandidateKernel]) -> bool:
    """Whether these kernels, which share no node, can run one after the other."""
    return len(in_topological_order(producers(graph, kernels))) == len(kernels)


def producers(graph: Graph, kernels: Sequence[CandidateKernel]) -> list[set[int]]:
    """
    For each kernel, the numbers of the kernels that it takes a value from, directly or through
    nodes that are in no kernel. It takes a value from itself if a path leaves it and comes back.
    The kernels share no node.
    """
    insides = [kernel.sub_graph.indexes for kernel in kernels]
    owner = {index: number for number, inside in enumerate(insides) for index in inside}
    return [_producers(graph, inside, number, owner) for number, inside in enumerate(insides)]


def _producers(
    graph: Graph, inside: Sequence[int], number: int, owner: Mapping[int, int]
) -> set[int]:
    found: set[int] = set()
    pending = [i for index in inside for i in graph.nodes[index].inputs if owner.get(i) != number]
    seen: set[int] = set()
    while pending:
        index = pending.pop()
        if index in owner:
            found.add(owner[index])
        elif index not in seen:
            seen.add(index)
            pending += graph.nodes[index].inputs
    return found
