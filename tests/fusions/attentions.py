"""Find attention."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from collage_dsl.graph import Graph
from tests.fusions.nodes import Fusion, Nodes, listed


def attentions(graph: Graph) -> set[Fusion]:
    """`softmax(scale * q @ transpose(k) + mask) @ v`; the mask is there or not."""
    nodes = Nodes(graph)
    found = (each for softmax in nodes.calls("nn.softmax") for each in _attention(nodes, softmax))
    return set(found)


def causal_attentions(graph: Graph) -> set[Fusion]:
    """The attentions with a constant mask that hides what comes later, and nothing else."""
    nodes = Nodes(graph)
    return {group for group in attentions(graph) if _is_causal(nodes, group)}


def _is_causal(nodes: Nodes, group: Fusion) -> bool:
    for index in group:
        for mask in map(nodes.array, nodes.operands(index)) if nodes.is_call(index, "add") else ():
            if mask is not None and mask.ndim >= 2 and mask.shape[-1] == mask.shape[-2]:
                later = np.triu(np.ones(mask.shape[-2:], bool), 1)
                hidden = np.broadcast_to(later, mask.shape)
                return bool((mask[~hidden] == 0).all() and (mask[hidden] < -1e4).all())
    return False


def _attention(nodes: Nodes, softmax: int) -> Iterator[Fusion]:
    rank = len(nodes.shape(softmax))
    if nodes[softmax].attrs["axis"] not in (-1, rank - 1):
        return
    for product, above in _scores(nodes, nodes.operands(softmax)[0]):
        for below, result in _weighted(nodes, softmax):
            for sides in _sides(nodes, product):
                group = frozenset({softmax, product, *above, *below, *sides, result})
                if nodes.closed(group, result):
                    yield group
                    break


def _scores(nodes: Nodes, index: int) -> Iterator[tuple[int, list[int]]]:
    """The product behind a value, and what is between: a mask that is added, and a scale."""
    if nodes.is_call(index, "matmul"):
        yield index, []
    if nodes.is_call(index, "multiply"):
        yield from ((product, [index]) for product in _unscaled(nodes, index))
    if nodes.is_call(index, "add"):
        for scores in nodes.operands(index):
            if nodes.is_call(scores, "matmul"):
                yield scores, [index]
            if nodes.is_call(scores, "multiply"):
                yield from ((product, [index, scores]) for product in _unscaled(nodes, scores))


def _unscaled(nodes: Nodes, index: int) -> Iterator[int]:
    for product in nodes.operands(index):
        if nodes.is_call(product, "matmul") and nodes.scalar(nodes.other(index, product)):
            yield product


def _weighted(nodes: Nodes, softmax: int) -> Iterator[tuple[list[int], int]]:
    """The product with the values; before it, rows that are not numbers may become 0."""
    for result in nodes.following(softmax, "matmul"):
        if nodes.operands(result)[0] == softmax:
            yield [], result
    for test in nodes.following(softmax, "isnan"):
        for guarded in nodes.following(test, "where"):
            condition, zero, other = nodes.operands(guarded)
            if condition == test and nodes.number(zero) == 0 and other == softmax:
                for result in nodes.following(guarded, "matmul"):
                    if nodes.operands(result)[0] == guarded:
                        yield [test, guarded], result


def _sides(nodes: Nodes, product: int) -> Iterator[set[int]]:
    """What scales queries and keys, and transposes the keys; then that without the first scale."""
    queries, keys = nodes.operands(product)
    inside: set[int] = set()
    unscaled = _scale_of(nodes, keys)
    if unscaled is not None:
        inside.add(keys)
        keys = unscaled
    transposed = _transposed(nodes, keys)
    if transposed is not None:
        if _scale_of(nodes, queries) is not None:
            yield {queries, *inside, *transposed}
        yield inside | transposed


def _scale_of(nodes: Nodes, index: int) -> int | None:
    """What a call multiplies by one constant number."""
    if not nodes.is_call(index, "multiply"):
        return None
    first, second = nodes.operands(index)
    if nodes.scalar(second):
        return first
    return second if nodes.scalar(first) else None


def _transposed(nodes: Nodes, index: int) -> set[int] | None:
    """The nodes that exchange the last two axes, or that do so as they divide heads."""
    if nodes.is_call(index, "permute_dims"):
        axes = nodes[index].attrs["axes"]
        return {index} if axes in ((0, 2, 1), (0, 1, 3, 2), (0, 2, 3, 1)) else None
    if not nodes.is_call(index, "reshape"):
        return None
    permuted = nodes.operands(index)[0]
    if not nodes.is_call(permuted, "permute_dims") or nodes[permuted].attrs["axes"] != (0, 2, 1):
        return None
    flat = nodes.operands(permuted)[0]
    if not nodes.is_call(flat, "reshape"):
        return None
    kept = _written(nodes, flat) == nodes.shape(nodes.operands(flat)[0])[-2:]
    turned = _written(nodes, index) == nodes.shape(nodes.operands(flat)[0])[:-3:-1]
    return {index, permuted, flat} if kept and turned else None


def _written(nodes: Nodes, reshape: int) -> tuple[object, ...]:
    """The last two dimensions that a reshape is written with."""
    return tuple(listed(nodes[nodes.operands(reshape)[1]].value))[-2:]
