"""Models that may end the process of onnxruntime, and how they come to another process."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx

from collage_dsl.frontend.onnx_model import load_structure

Sent = str | bytes
"""A model as it is sent to another process: the path of its file, or the model itself."""


def may_crash(model: str | Path | onnx.ModelProto) -> bool:
    """
    Whether a run of `model` in onnxruntime may end the process: a `Scan` over another axis than the
    first does so for a sequence without elements.
    """
    loaded = model if isinstance(model, onnx.ModelProto) else load_structure(Path(model))
    graphs = [loaded.graph, *loaded.functions]
    return any(node.op_type == "Scan" for graph in graphs for node in _nodes(graph.node))


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """`nodes`, and those of the graphs inside them."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _nodes(graph.node)


def sent(model: str | Path | onnx.ModelProto) -> Sent:
    if isinstance(model, onnx.ModelProto):
        return bytes(model.SerializeToString())
    return str(Path(model).absolute())


def received(given: Sent) -> str | onnx.ModelProto:
    return onnx.load_model_from_string(given) if isinstance(given, bytes) else given
