"""Nodes of a graph as lists, and what is asked about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isclose
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collage_dsl.graph import Form, Graph, Node

Fusion = frozenset[int]
"""The indexes of the nodes inside."""

Array = NDArray[np.float64]


class Nodes:
    """A graph as lists: for each node its operands, and the nodes that use it."""

    def __init__(self, graph: Graph) -> None:
        self.nodes = graph.nodes
        self.returned = set(graph.outputs)
        self.users: list[list[int]] = [[] for _ in graph.nodes]
        for index, node in enumerate(graph.nodes):
            for operand in dict.fromkeys(node.inputs):
                self.users[operand].append(index)

    def __getitem__(self, index: int) -> Node:
        return self.nodes[index]

    def calls(self, *ops: str) -> Iterator[int]:
        return (i for i in range(len(self.nodes)) if self.is_call(i, *ops))

    def is_call(self, index: int, *ops: str) -> bool:
        node = self.nodes[index]
        return node.form is Form.CALL and (not ops or node.op in ops)

    def operands(self, index: int) -> tuple[int, ...]:
        return self.nodes[index].inputs

    def following(self, index: int, *ops: str) -> list[int]:
        """The calls of `ops` that use a value."""
        return [user for user in self.users[index] if self.is_call(user, *ops)]

    def is_constant(self, index: int) -> bool:
        return self.nodes[index].form is Form.CONSTANT

    def array(self, index: int) -> Array | None:
        """The elements of a constant, if they are known."""
        value = self.nodes[index].value
        if not self.is_constant(index) or value is None:
            return None
        return np.asarray(value).astype(np.float64)

    def number(self, index: int) -> float | None:
        """The number that all elements of a constant are."""
        array = self.array(index)
        if array is None or not array.size or not (array == array.flat[0]).all():
            return None
        return float(array.flat[0])

    def is_near(self, index: int, value: float) -> bool:
        number = self.number(index)
        return number is not None and isclose(number, value, rel_tol=1e-4)

    def scalar(self, index: int) -> bool:
        """Whether a value is a constant of one element."""
        array = self.array(index)
        return array is not None and array.size == 1

    def other(self, index: int, operand: int) -> int:
        """The second operand of a call with two, of which `operand` is one."""
        first, second = self.operands(index)
        return second if first == operand else first

    def closed(self, inside: Iterable[int], result: int, leaving: Iterable[int] = ()) -> bool:
        """Whether only the result, and what is in `leaving`, is used outside."""
        kept = set(inside)
        hidden = kept - {result} - set(leaving)
        return not any(i in self.returned or set(self.users[i]) - kept for i in hidden)

    def convex(self, inside: set[int]) -> bool:
        """Whether no path leaves and comes back."""
        outside: set[int] = set()
        for index in range(min(inside), max(inside) + 1):
            comes_from = any(o in outside or o in inside for o in self.operands(index))
            if comes_from and index not in inside:
                outside.add(index)
        return not any(o in outside for index in inside for o in self.operands(index))

    def shape(self, index: int) -> tuple[int | str, ...]:
        return self.nodes[index].tensor.shape or ()


def listed(value: object) -> Iterable[Any]:
    """The items of a literal list; none of anything else."""
    return value if isinstance(value, (tuple, list)) else ()
