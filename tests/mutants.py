"""Graphs that differ from a given one in one thing: near misses for patterns."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from random import Random

import numpy as np

from collage_dsl.graph import Attribute, Form, Graph, Node

_OTHERS = {
    "add": "subtract",
    "subtract": "add",
    "multiply": "add",
    "divide": "multiply",
    "power": "divide",
    "sqrt": "exp",
    "rsqrt": "sqrt",
    "exp": "tanh",
    "erf": "tanh",
    "tanh": "sigmoid",
    "sigmoid": "tanh",
    "negative": "exp",
    "mean": "sum",
    "isnan": "isinf",
    "nn.relu": "tanh",
    "nn.gelu": "nn.relu",
    "nn.gelu_tanh": "nn.gelu",
    "nn.softmax": "nn.log_softmax",
}
"""For an operator another one with as many operands."""

_NEAR = 40
"""From how far in the graph another operand is taken."""


def mutants(graph: Graph, at: Iterable[int], most: int, seed: int) -> Iterator[tuple[str, Graph]]:
    """
    At most so many mutants of the nodes `at`, drawn at random: what was changed, and the graph. The
    types of the nodes stay as they are.
    """
    made = [(index, *changed) for index in at for changed in _mutants(graph, index)]
    for index, what, nodes, outputs in Random(seed).sample(made, min(most, len(made))):
        yield f"{graph.nodes[index].name}: {what}", Graph(nodes, outputs)


Made = tuple[str, list[Node], tuple[int, ...]]


def _mutants(graph: Graph, index: int) -> Iterator[Made]:
    node = graph.nodes[index]
    if node.is_call and index not in graph.outputs:
        yield "is returned too", list(graph.nodes), (*graph.outputs, index)
    for what, changed in (*_operators(node), *_attributes(node), *_operands(graph, index)):
        yield what, _with(graph, index, changed), graph.outputs
    for place, operand in enumerate(node.inputs):
        for value in _values(graph.nodes[operand]):
            changed = replace(graph.nodes[operand], value=value)
            yield f"operand {place} is {value}", _with(graph, operand, changed), graph.outputs


def _with(graph: Graph, index: int, node: Node) -> list[Node]:
    return [*graph.nodes[:index], node, *graph.nodes[index + 1 :]]


def _operators(node: Node) -> Iterator[tuple[str, Node]]:
    if node.op in _OTHERS:
        yield f"is {_OTHERS[node.op]}", replace(node, op=_OTHERS[node.op])


def _attributes(node: Node) -> Iterator[tuple[str, Node]]:
    for name, value in node.attrs.items():
        changed = _changed(value)
        if changed is not None:
            attrs = {**node.attrs, name: changed}
            yield f"{name} is {changed}", replace(node, attrs=attrs)


def _changed(value: Attribute) -> Attribute:
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case (int() as first,):
            return (first - 1,)
        case (_, _, *_):
            return value[::-1]
        case _:
            return None


def _operands(graph: Graph, index: int) -> Iterator[tuple[str, Node]]:
    """With another value of the same type for one operand, or two operands in the other order."""
    node = graph.nodes[index]
    for place, operand in enumerate(node.inputs):
        old = graph.nodes[operand]
        for other in range(max(0, index - _NEAR), index):
            new = graph.nodes[other]
            same = new.type == old.type and new.form is not Form.LITERAL
            if other != operand and same and not _is_neutral(new):
                inputs = (*node.inputs[:place], other, *node.inputs[place + 1 :])
                yield f"operand {place} is {new.name}", replace(node, inputs=inputs)
    if len(node.inputs) == 2 and len({graph.nodes[i].form for i in node.inputs}) == 1:
        yield "operands are swapped", replace(node, inputs=node.inputs[::-1])


def _is_neutral(node: Node) -> bool:
    """A 0 or 1, with which an operator may compute nothing: that is another spelling, no miss."""
    return node.form is Form.CONSTANT and node.value is not None and bool(np.all(_array(node) < 2))


def _array(node: Node) -> np.ndarray:
    return np.asarray(node.value)


def _values(node: Node) -> Iterator[object]:
    """Other values of a constant or literal."""
    if node.form is Form.LITERAL and isinstance(node.value, (int, float)):
        yield node.value + 1
    elif node.form is Form.LITERAL and isinstance(node.value, tuple) and node.value:
        yield tuple(each + 1 if each < 1000 else 1 for each in node.value)
        if len(set(node.value)) > 1:
            yield node.value[::-1]
    elif node.form is Form.CONSTANT and node.value is not None:
        array = _array(node)
        is_float = np.issubdtype(array.dtype, np.floating)
        yield (array * 0.75 if is_float else array + 1).astype(array.dtype)
        if array.size > 1:
            changed = array.copy()
            changed.flat[array.size // 2] = 3
            yield changed
