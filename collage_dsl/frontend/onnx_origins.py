"""From which ONNX nodes each node of a graph came."""

from collections.abc import Collection, Mapping

import onnx

from collage_dsl.frontend.onnx_scope import names_read
from collage_dsl.graph import Form, Graph, Origin


def origins(model: onnx.ModelProto, graph: Graph) -> dict[str, tuple[Origin, ...]]:
    """
    The ONNX nodes of each computed node of `graph`, which `from_onnx` made of `model`, by its name.

    Where several ONNX nodes became one, as a batch norm that was folded into a convolution, all
    are named. Where one became several, each of these names it.
    """
    makers = {name: node for node in model.graph.node for name in node.output if name}
    names = {node.name for node in graph.nodes if node.form is not Form.LITERAL}
    return {
        node.name: _origins(value, makers, names)
        for node in graph.nodes
        if node.form in (Form.CALL, Form.PROJECTION) and (value := _value(node.name, makers))
    }


def _value(name: str, makers: Mapping[str, onnx.NodeProto]) -> str:
    """The ONNX value after which a node is named: `y` for `y.reshape`; empty if there is none."""
    while name and name not in makers:
        name = name.rpartition(".")[0]
    return name


def _origins(
    value: str, makers: Mapping[str, onnx.NodeProto], names: Collection[str]
) -> tuple[Origin, ...]:
    found: dict[int, onnx.NodeProto] = {}
    pending = [value]
    while pending:
        node = makers.get(pending.pop())
        if node is None or id(node) in found:
            continue
        found[id(node)] = node
        pending += [each for each in names_read(node) if each not in names]
    by_order = reversed(found.values())
    return tuple(Origin(node.op_type, node.name) for node in by_order if node.op_type != "Constant")
