"""`horizontal`: join siblings, candidates with the same operators that share an input."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from collage_dsl.graph import Graph, OpSet, SubGraph, members
from collage_dsl.rules.bound import Bound

REACH = 7
"""Each candidate is joined only with this number of siblings that come after it."""


def siblings_joined(
    graph: Graph, found: Iterable[SubGraph], most: int, bound: Bound
) -> Iterator[SubGraph]:
    """
    `found`, and the unions of two to `most` of them that are siblings of each other.

    Siblings have the same operators in graph order and the same labels, and are in one dataflow
    block. They share no node, and no path leads from one to the other. One value that is not a
    constant or a literal flows into all of them. All siblings in a union are among the first
    `REACH` siblings of its first one, in graph order, below that value.
    """
    proposed = list(dict.fromkeys(found))
    yield from proposed
    sharing: defaultdict[tuple[object, ...], list[_Candidate]] = defaultdict(list)
    for each in sorted(proposed, key=lambda each: each.order):
        candidate = _Candidate(each, graph.downstream(each.inside))
        for index in members(graph.input(each.inside) & ~(graph.constants | graph.literals)):
            sharing[index, *_shape(graph, each)].append(candidate)
    seen = set(proposed)
    for candidates in sharing.values():
        for union in _unions(candidates, most, bound):
            if union not in seen:
                seen.add(union)
                yield union


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A candidate, and everything that it flows into."""

    sub_graph: SubGraph
    below: OpSet

    def is_independent(self, other: "_Candidate") -> bool:
        """Whether the two share no node, and no path leads from one to the other."""
        inside, of_other = self.sub_graph.inside, other.sub_graph.inside
        return not (inside | self.below) & of_other and not other.below & inside


def _unions(candidates: list[_Candidate], most: int, bound: Bound) -> Iterator[SubGraph]:
    """The unions of candidates of one shape that share an input, in graph order."""
    for place, one in enumerate(candidates):
        near = tuple(islice(_later(one, islice(candidates, place + 1, None), bound), REACH))
        yield from _grown(one.sub_graph, (one,), near, most)


def _later(one: _Candidate, others: Iterable[_Candidate], bound: Bound) -> Iterator[_Candidate]:
    for other in others:
        bound.spend(1)
        if one.is_independent(other):
            yield other


def _grown(
    union: SubGraph, parts: tuple[_Candidate, ...], near: tuple[_Candidate, ...], most: int
) -> Iterator[SubGraph]:
    """`union` of `parts` with one or more of `near`, all independent of each other."""
    if len(parts) == most:
        return
    for place, other in enumerate(near):
        if all(part.is_independent(other) for part in parts):
            larger = union | other.sub_graph
            if larger.has_variant:
                yield larger
                yield from _grown(larger, (*parts, other), near[place + 1 :], most)


def _shape(graph: Graph, each: SubGraph) -> tuple[object, ...]:
    labels = tuple(composite.label for composite in each.composites)
    return (
        graph.operators(each.inside),
        labels,
        graph.blocks(each.inside),
        graph.devices(each.inside),
    )
