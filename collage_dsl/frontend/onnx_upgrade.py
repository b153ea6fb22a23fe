"""Bring models of old operator sets to one whose operators have forms in Relax."""

import onnx
import onnx.shape_inference
import onnx.version_converter
from onnx import helper

OLDEST_OPSET = 7
"""
The oldest operator set whose operators have forms in Relax. Before it, binary operators broadcast
by an attribute.
"""


def opset_of(model: onnx.ModelProto) -> int:
    """The version of the standard operators that the model uses."""
    versions = [o.version for o in model.opset_import if o.domain in ("", "ai.onnx")]
    return max(versions, default=onnx.defs.onnx_opset_version())


def upgraded(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` in a later operator set; as it is where the converter of ONNX cannot do that."""
    try:
        converted = onnx.version_converter.convert_version(model, OLDEST_OPSET)
        _broadcast_slopes(converted)
    except Exception:  # Of many kinds: it is told of whatever is wrong with the model.
        return model
    return converted


def _broadcast_slopes(model: onnx.ModelProto) -> None:
    """
    Give the slopes of each PRelu the dimensions behind the channels, which a slope for each channel
    did not need before operator set 7. The converter leaves it as it is.
    """
    if not any(node.op_type == "PRelu" for node in model.graph.node):
        return
    graph = onnx.shape_inference.infer_shapes(model).graph
    known = (*graph.input, *graph.value_info, *graph.output)
    ranks = {each.name: len(each.type.tensor_type.shape.dim) for each in known}
    ranks |= {tensor.name: len(tensor.dims) for tensor in graph.initializer}
    nodes = []
    for node in model.graph.node:
        if node.op_type == "PRelu" and ranks.get(node.input[1]) == 1:
            axes = list(range(1, ranks.get(node.input[0], 2) - 1))
            if axes:
                shaped = f"{node.output[0]}.slope"
                nodes.append(helper.make_node("Unsqueeze", [node.input[1]], [shaped], axes=axes))
                node.input[1] = shaped
        nodes.append(node)
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)
