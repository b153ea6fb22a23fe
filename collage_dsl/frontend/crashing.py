"""Models that may end the process of onnxruntime."""

from pathlib import Path

import onnx

from collage_dsl.frontend.onnx_model import load_structure
from collage_dsl.onnx_nodes import nodes_within


def may_crash(model: str | Path | onnx.ModelProto) -> bool:
    """
    Whether a run of `model` in onnxruntime may end the process: a `Scan` along another axis of what
    it takes than the first does so for a sequence without elements.
    """
    loaded = model if isinstance(model, onnx.ModelProto) else load_structure(Path(model))
    scopes = (loaded.graph, *loaded.functions)
    return any(_scans_other_axis(node) for scope in scopes for node in nodes_within(scope.node))


def _scans_other_axis(node: onnx.NodeProto) -> bool:
    axes = (each.ints for each in node.attribute if each.name == "scan_input_axes")
    return node.op_type == "Scan" and any(map(any, axes))
