"""Replace the calls of the functions of an ONNX model by their bodies."""

from collections.abc import Iterable, Iterator

import onnx
import onnx.inliner

from collage_dsl.frontend.onnx_check import called, check_functions
from collage_dsl.frontend.onnx_scope import graphs_of


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` without functions. Raises `FrontendError` where they cannot be replaced."""
    check_functions(model)
    return onnx.inliner.inline_local_functions(_with_defaults(model))


def _with_defaults(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model`, in which each call gives all attributes: the inliner of ONNX has no defaults."""
    if not any(each.attribute_proto for each in model.functions):
        return model
    result = onnx.ModelProto()
    result.CopyFrom(model)
    functions = {(each.domain, each.name, each.overload): each for each in result.functions}
    for body in (result.graph, *result.functions):
        for node in _nodes(body.node):
            function = functions.get(called(node))
            given = {attribute.name for attribute in node.attribute}
            defaults = function.attribute_proto if function else ()
            node.attribute.extend(each for each in defaults if each.name not in given)
    return result


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for graph in graphs_of(node):
            yield from _nodes(graph.node)
