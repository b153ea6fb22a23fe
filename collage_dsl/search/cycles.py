"""Find kernels of a cover that wait for each other in a cycle, so that none could run."""

from collections import deque
from collections.abc import Sequence

from collage_dsl.graph import CandidateKernel, Graph, OpSet, first, members
from collage_dsl.search.execution_order import is_acyclic

Passage = tuple[int, int]
"""
Two nodes of a kernel on a cycle: one that needs the kernel before it on the cycle, and one that
the next kernel needs.
"""


def shortest_cycle(graph: Graph, kernels: Sequence[CandidateKernel]) -> tuple[Passage, ...]:
    """
    The passages of a shortest cycle of kernels, one for each kernel on it; empty if there is no
    cycle. The kernels share no node. On a cycle each kernel waits for the one before it, and the
    first for the last.

    Other kernels that contain the same passages would wait for each other in the same way.
    """
    if is_acyclic(graph, kernels):
        return ()
    insides = [kernel.sub_graph.inside for kernel in kernels]
    below = [graph.downstream(inside) for inside in insides]
    after = [
        [other for other, inside in enumerate(insides) if other != number and reached & inside]
        for number, reached in enumerate(below)
    ]
    rings = (ring for start in range(len(insides)) if (ring := _ring(after, start)))
    ring = min(rings, key=len, default=())
    steps = [_step(graph, insides[one], insides[other]) for one, other in _pairs(ring)]
    # A step leaves one kernel and enters the next: the entered node comes from the step before.
    return tuple((steps[place - 1][1], leaving) for place, (leaving, _) in enumerate(steps))


def _ring(after: Sequence[Sequence[int]], start: int) -> tuple[int, ...]:
    """A shortest cycle through `start`."""
    came: dict[int, int] = {}
    pending = deque([start])
    while pending:
        number = pending.popleft()
        for other in after[number]:
            if other == start:
                return _way(came, start, number)
            if other not in came:
                came[other] = number
                pending.append(other)
    return ()


def _way(came: dict[int, int], start: int, end: int) -> tuple[int, ...]:
    way = [end]
    while way[-1] != start:
        way.append(came[way[-1]])
    return tuple(reversed(way))


def _pairs(ring: Sequence[int]) -> list[tuple[int, int]]:
    return [(one, ring[(place + 1) % len(ring)]) for place, one in enumerate(ring)]


def _step(graph: Graph, one: OpSet, other: OpSet) -> tuple[int, int]:
    """A node of `one`, and a node of `other` that it flows into."""
    leaving = next(i for i in members(one) if graph.downstream_of[i] & other)
    return leaving, first(graph.downstream_of[leaving] & other)
