"""
Find activations by what they compute: all nodes from one value to another are run on numbers, and
compared with the function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from scipy.special import erf

from collage_dsl.graph import Form, Graph
from tests.fusions.nodes import Array, Fusion, Nodes

NUMBERS: Mapping[str, Callable[..., Array]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "power": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "negative": np.negative,
    "exp": np.exp,
    "tanh": np.tanh,
    "square": np.square,
    "erf": erf,
    "clip": np.clip,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "nn.relu": lambda x: np.maximum(x, 0),
    "nn.gelu": lambda x: x * (1 + erf(x / np.sqrt(2))) / 2,
    "nn.gelu_tanh": lambda x: x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2,
    "nn.silu": lambda x: x / (1 + np.exp(-x)),
}
"""What operators do with each element."""

_POINTS = np.linspace(-6, 6, 241)
_LARGEST = 12
"""More operators than any spelling of an activation has."""


def activations(wanted: Callable[[Array], Array]) -> Callable[[Graph], set[Fusion]]:
    """The fusions that compute the function `wanted` of one value."""
    return lambda graph: set(_computing(Nodes(graph), wanted(_POINTS)))


def _computing(nodes: Nodes, values: Array) -> Iterator[Fusion]:
    for result in nodes.calls(*NUMBERS):
        for begin, inside in _regions(nodes, result):
            found = _run(nodes, sorted(inside), begin)
            if found is not None and np.allclose(found, values, rtol=0, atol=2e-4):
                yield inside
                break


def _regions(nodes: Nodes, result: int) -> Iterator[tuple[int, Fusion]]:
    """Each value from which `result` is computed, with all nodes between."""
    inside = {result}
    while len(inside) <= _LARGEST:
        taken = {o for i in inside for o in nodes.operands(i) if _flows(nodes, o)} - inside
        if not taken:
            return
        if len(taken) == 1:
            yield min(taken), frozenset(inside)
        grown = max(taken)
        if not nodes.is_call(grown, *NUMBERS):
            return
        inside.add(grown)


def _flows(nodes: Nodes, index: int) -> bool:
    return nodes[index].form is not Form.LITERAL and not nodes.is_constant(index)


def _run(nodes: Nodes, inside: list[int], begin: int) -> Array | None:
    """What the last of the nodes gives for the points, if only it is used outside."""
    if not nodes.closed(inside, inside[-1]):
        return None
    known: dict[int, Array] = {begin: _POINTS}
    for index in inside:
        operands = [known[o] if o in known else _fixed(nodes, o) for o in nodes.operands(index)]
        given = [o for o in operands if o is not None]
        if len(given) < len(operands):
            return None
        with np.errstate(all="ignore"):
            known[index] = NUMBERS[nodes[index].op](*given)
    return known[inside[-1]]


def _fixed(nodes: Nodes, index: int) -> Array | None:
    node = nodes[index]
    number = node.value if node.form is Form.LITERAL else nodes.number(index)
    return np.full_like(_POINTS, number) if isinstance(number, (int, float)) else None
