"""Find products of bytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from collage_dsl.graph import Graph
from tests.fusions.nodes import Fusion, Nodes


def quantized_products(graph: Graph) -> set[Fusion]:
    """
    A product between dequantize and quantize [+ bias], whose weights have zero points of 0, and
    whose bias has the scales of data and weights, multiplied. Others may use the dequantized data,
    weights and bias too.
    """
    nodes = Nodes(graph)
    return {found for product in nodes.calls("matmul") for found in _quantized(nodes, product)}


def _quantized(nodes: Nodes, product: int) -> Iterator[Fusion]:
    data, weights = nodes.operands(product)
    inside, shared = {data, weights, product}, {data, weights}
    if nodes.is_call(weights, "permute_dims") and nodes[weights].attrs["axes"] == (1, 0):
        shared.discard(weights)
        weights = nodes.operands(weights)[0]
        inside.add(weights)
        shared.add(weights)
    if not (_is_data(nodes, data) and _are_weights(nodes, weights)):
        return
    for quantized in nodes.following(product, "quantize"):
        if _ends(nodes, quantized) and nodes.operands(quantized)[0] == product:
            yield from _if_closed(nodes, inside | {quantized}, quantized, shared)
    for added in nodes.following(product, "add"):
        bias = nodes.other(added, product)
        if not _is_bias(nodes, bias, data, weights):
            continue
        for quantized in nodes.following(added, "quantize"):
            if _ends(nodes, quantized):
                group = inside | {added, bias, quantized}
                yield from _if_closed(nodes, group, quantized, shared | {bias})


def _if_closed(nodes: Nodes, group: set[int], result: int, shared: set[int]) -> Iterator[Fusion]:
    if nodes.closed(group, result, shared) and nodes.convex(group):
        yield frozenset(group)


def _is_data(nodes: Nodes, index: int) -> bool:
    """Whether a value was a byte with one positive scale."""
    if not nodes.is_call(index, "dequantize"):
        return False
    data, scale, zero = nodes.operands(index)
    number = nodes.number(scale)
    is_byte = nodes[data].tensor.dtype in ("uint8", "int8")
    known = nodes.array(zero) is not None
    return is_byte and known and number is not None and number > 0 and nodes.scalar(scale)


def _are_weights(nodes: Nodes, index: int) -> bool:
    if not nodes.is_call(index, "dequantize"):
        return False
    weights, scales, zeros = nodes.operands(index)
    numbers, zero = nodes.array(scales), nodes.array(zeros)
    if not nodes.is_constant(weights) or nodes[weights].tensor.dtype != "int8":
        return False
    if numbers is None or zero is None:
        return False
    return bool((numbers > 0).all() and (zero == 0).all())


def _is_bias(nodes: Nodes, bias: int, data: int, weights: int) -> bool:
    if not nodes.is_call(bias, "dequantize"):
        return False
    numbers, scales, zeros = nodes.operands(bias)
    own, zero = nodes.array(scales), nodes.array(zeros)
    first, second = (nodes.array(nodes.operands(index)[1]) for index in (data, weights))
    if own is None or zero is None or first is None or second is None:
        return False
    if (
        not nodes.is_constant(numbers)
        or nodes[numbers].tensor.dtype != "int32"
        or (zero != 0).any()
    ):
        return False
    wanted = first * second
    return own.size in (1, wanted.size) and np.allclose(own, wanted, rtol=1e-4, atol=0)


def _ends(nodes: Nodes, index: int) -> bool:
    _, scale, zero = nodes.operands(index)
    number = nodes.number(scale)
    is_byte = nodes[index].tensor.dtype in ("uint8", "int8")
    known = nodes.array(zero) is not None
    return is_byte and known and number is not None and number > 0 and nodes.scalar(scale)
