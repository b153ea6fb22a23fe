"""Bring the nodes of a model into an order in which each comes behind those that it needs."""

from collections.abc import Sequence

import onnx

from collage_dsl.frontend.onnx_scope import names_read
from collage_dsl.graph.topological import in_topological_order


def in_order(model: onnx.ModelProto) -> onnx.ModelProto:
    """
    `model`, or a copy with its nodes in order. onnxruntime takes the nodes of a model in any order,
    and tools that sort nodes forget what the branches of an `If` take from outside.
    """
    order = _order(model.graph.node)
    if order == sorted(order):
        return model
    result = onnx.ModelProto()
    result.CopyFrom(model)
    del result.graph.node[:]
    result.graph.node.extend(model.graph.node[place] for place in order)
    return result


def _order(nodes: Sequence[onnx.NodeProto]) -> list[int]:
    """
    The places of nodes in an order in which each comes behind those that it needs, and otherwise as
    early as it stands. Nodes that need themselves come last, as they stand.
    """
    makers = {name: place for place, node in enumerate(nodes) for name in node.output if name}
    needed = [{makers[name] for name in names_read(node) if name in makers} for node in nodes]
    order = in_topological_order(needed)
    return [*order, *sorted(set(range(len(nodes))).difference(order))]
