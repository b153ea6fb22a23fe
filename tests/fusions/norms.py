"""Find root mean square normalization."""

from __future__ import annotations

from collections.abc import Iterator

from collage_dsl.graph import Graph
from tests.fusions.nodes import Fusion, Nodes


def rms_norms(graph: Graph) -> set[Fusion]:
    """`x / sqrt(mean(x * x) + epsilon) * weight`, over the last axis."""
    nodes = Nodes(graph)
    return {found for mean in nodes.calls("mean") for found in _rms_norm(nodes, mean)}


def _rms_norm(nodes: Nodes, mean: int) -> Iterator[Fusion]:
    (squares,) = nodes.operands(mean)
    x = _squared(nodes, squares)
    if x is None or not nodes[mean].attrs["keepdims"] or not _over_last(nodes, mean):
        return
    for added in nodes.following(mean, "add"):
        epsilon = nodes.number(nodes.other(added, mean))
        if epsilon is None or not 0 < epsilon < 1e-2:
            continue
        for inside, scaled in _divided(nodes, added, x):
            for result in nodes.following(scaled, "multiply"):
                weight = nodes.other(result, scaled)
                if nodes.is_constant(weight) and nodes.shape(weight) == nodes.shape(x)[-1:]:
                    group = frozenset({squares, mean, added, *inside, scaled, result})
                    if nodes.closed(group, result):
                        yield group


def _squared(nodes: Nodes, index: int) -> int | None:
    """The value that a call squares."""
    if nodes.is_call(index, "square"):
        return nodes.operands(index)[0]
    if nodes.is_call(index, "multiply") and len(set(nodes.operands(index))) == 1:
        return nodes.operands(index)[0]
    if nodes.is_call(index, "power") and nodes.number(nodes.operands(index)[1]) == 2:
        return nodes.operands(index)[0]
    return None


def _over_last(nodes: Nodes, index: int) -> bool:
    axes = nodes[index].attrs["axis"]
    rank = len(nodes.shape(nodes.operands(index)[0]))
    return isinstance(axes, tuple) and [int(str(axis)) % rank for axis in axes] == [rank - 1]


def _divided(nodes: Nodes, radicand: int, x: int) -> Iterator[tuple[list[int], int]]:
    """Where `x` is divided by the root: the nodes before the result, and the result."""
    for reciprocal in nodes.following(radicand, "rsqrt"):
        for product in nodes.following(reciprocal, "multiply"):
            if nodes.other(product, reciprocal) == x:
                yield [reciprocal], product
    for root in nodes.following(radicand, "sqrt"):
        for quotient in nodes.following(root, "divide"):
            above, below = nodes.operands(quotient)
            if below == root and above == x:
                yield [root], quotient
            elif below == root and nodes.number(above) == 1:
                for product in nodes.following(quotient, "multiply"):
                    if nodes.other(product, quotient) == x:
                        yield [root, quotient], product
