"""Find stacks of dense layers, and branches that are joined."""

from __future__ import annotations

from collage_dsl.graph import Form, Graph
from tests.fusions.nodes import Fusion, Nodes


def dense_stacks(graph: Graph) -> set[Fusion]:
    """Two or more dense layers with relu, one after the other: the longest chains."""
    nodes = Nodes(graph)
    chains: dict[int, list[int]] = {}
    for relu in nodes.calls("nn.relu"):
        layer = _layer(nodes, relu)
        if layer:
            before = nodes.operands(layer[0])[0]
            follows = before in chains and nodes.closed([before, *layer], relu)
            chains[relu] = [*(chains.pop(before) if follows else ()), *layer]
    return {frozenset(chain) for chain in chains.values() if len(chain) > 3}


def _layer(nodes: Nodes, relu: int) -> list[int]:
    """The product, sum and relu of the layer that ends with a relu; nothing if it ends none."""
    (added,) = nodes.operands(relu)
    if not nodes.is_call(added, "add"):
        return []
    for product in nodes.operands(added):
        bias = nodes.other(added, product)
        if nodes.is_call(product, "matmul") and nodes.is_constant(bias):
            weight = nodes.operands(product)[1]
            plain = nodes.is_constant(weight) and len(nodes.shape(weight)) == 2
            fits = nodes.shape(bias) == nodes.shape(weight)[-1:]
            if plain and fits and nodes.closed([product, added, relu], relu):
                return [product, added, relu]
    return []


def branches(graph: Graph) -> set[Fusion]:
    """A concatenation along channels of 2 to 8 convolutions with bias and relu of one value."""
    nodes = Nodes(graph)
    return {group for concat in nodes.calls("concat") if (group := _joined(nodes, concat))}


def _joined(nodes: Nodes, concat: int) -> Fusion | None:
    (fields,) = nodes.operands(concat)
    if nodes[concat].attrs["axis"] != 1 or nodes[fields].form is not Form.TUPLE:
        return None
    parts = [_convolution(nodes, field) for field in nodes.operands(fields)]
    taken = {nodes.operands(part[0])[0] for part in parts if part}
    if not 2 <= len(parts) <= 8 or not all(parts) or len(taken) != 1:
        return None
    group = frozenset({concat, fields, *(index for part in parts for index in part)})
    return group if nodes.closed(group, concat) else None


def _convolution(nodes: Nodes, relu: int) -> list[int]:
    """The convolution, sum and relu that end with a relu."""
    if not nodes.is_call(relu, "nn.relu"):
        return []
    added = nodes.operands(relu)[0]
    if not nodes.is_call(added, "add"):
        return []
    for conv in nodes.operands(added):
        bias = nodes.other(added, conv)
        is_conv = nodes.is_call(conv, "nn.conv2d") and nodes.is_constant(nodes.operands(conv)[1])
        if is_conv and nodes.is_constant(bias):
            return [conv, added, relu]
    return []
