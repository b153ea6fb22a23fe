"""Which candidates do the same, at different places of a graph."""

from collections.abc import Hashable, Iterable, Sequence
from functools import cache

from collage_dsl.graph import CandidateKernel, Form, Graph, members

_FIXED = (Form.CONSTANT, Form.LITERAL)


class Structure:
    """What the calls and the candidates of a graph do, as keys that equal ones have in common."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.of_node = cache(self._of_node)

    def _of_node(self, index: int) -> Hashable:
        """What a node computes: its operator and attributes, and the types that it reads."""
        nodes = self._graph.nodes
        node = nodes[index]
        read = tuple((nodes[each].form in _FIXED, str(nodes[each].type)) for each in node.inputs)
        place = node.value if node.form is Form.PROJECTION else None
        return node.form, node.op, str(node.type), read, place, str(sorted(node.attrs.items()))

    def of(self, candidate: CandidateKernel) -> Hashable:
        """
        What a candidate computes, by the same target. Values of constants do not count; the order
        of branches does, so candidates that do the same may have different keys.
        """
        graph, inside = self._graph, candidate.sub_graph.inside
        exits = graph.exit(inside)
        numbers: dict[int, int] = {}
        parts = []
        for index in members(inside):
            inputs = graph.nodes[index].inputs
            read = tuple(numbers.setdefault(each, len(numbers)) for each in inputs)
            own = numbers.setdefault(index, len(numbers))
            parts.append((self.of_node(index), read, own, exits >> index & 1))
        return candidate.target, candidate.label, tuple(parts)


class Alike:
    """Some candidates, in groups of those that do the same."""

    def __init__(self, structure: Structure, candidates: Iterable[CandidateKernel]) -> None:
        self._structure = structure
        self._groups: dict[Hashable, list[CandidateKernel]] = {}
        for candidate in candidates:
            self._groups.setdefault(structure.of(candidate), []).append(candidate)

    def to(self, candidate: CandidateKernel) -> Sequence[CandidateKernel]:
        """All candidates that do the same as this one, with itself."""
        return self._groups.get(self._structure.of(candidate), (candidate,))
