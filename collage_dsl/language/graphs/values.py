"""Hold the elements of constants in a text, without and with numpy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isinf, prod
from typing import Any

from collage_dsl.graph import Graph, Node
from collage_dsl.graph.floats import FORMATS, has_infinity, rounded
from collage_dsl.graph.types import whole_range

Scalar = bool | int | float


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Values:
    """The elements of a constant in row-major order, with what matching needs of an array."""

    shape: tuple[int, ...]
    elements: tuple[Scalar, ...]

    def ravel(self) -> "Values":
        return Values((len(self.elements),), self.elements)

    def min(self) -> Scalar:
        return min(self.elements)

    def max(self) -> Scalar:
        return max(self.elements)

    def tolist(self) -> Any:
        return _nested(self.shape, self.elements)


def fits(value: Scalar, dtype: str) -> bool:
    """Whether a constant of `dtype` can hold `value`; fractions may be rounded."""
    if isinf(value):
        return has_infinity(dtype)
    if dtype in FORMATS:
        return FORMATS[dtype].holds(value)
    if "float" in dtype or dtype == "unknown":
        return abs(value) < inf
    if dtype == "bool" or isinstance(value, bool):
        return value in (0, 1)
    whole = whole_range(dtype)
    return isinstance(value, int) and whole is not None and whole[0] <= value <= whole[1]


def constant_values(dtype: str, shape: tuple[int, ...], elements: Sequence[Scalar]) -> Values:
    """The elements as a constant of `dtype` has them."""
    return Values(shape, tuple(rounded(element, dtype) for element in elements))


def with_arrays(graph: Graph) -> Graph:
    """
    The graph with numpy arrays instead of `Values`, where numpy is installed and knows the dtype.
    """
    if not any(isinstance(node.value, Values) for node in graph.nodes):
        return graph
    try:
        import numpy as np  # not needed to check a file, and slow to import
    except ImportError:  # rules can be tested without it
        return graph

    def with_array(node: Node) -> Node:
        if not isinstance(node.value, Values):
            return node
        try:
            elements = np.array(node.value.elements, dtype=node.tensor.dtype)
        except TypeError:  # numpy does not know the dtype
            return node
        return replace(node, value=elements.reshape(node.value.shape))

    nodes = map(with_array, graph.nodes)
    return Graph(nodes, graph.outputs, name=graph.name, returns_tuple=graph.returns_tuple)


def _nested(shape: tuple[int, ...], elements: tuple[Scalar, ...]) -> Any:
    if not shape:
        return elements[0]
    if len(shape) == 1:
        return list(elements)
    size = prod(shape[1:])
    rows = (elements[at * size : (at + 1) * size] for at in range(shape[0]))
    return [_nested(shape[1:], row) for row in rows]
