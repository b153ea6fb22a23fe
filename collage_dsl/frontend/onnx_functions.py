"""Operators that are others: those that ONNX defines as functions, and copies in other domains."""

from collections.abc import Callable, Collection

import onnx
import onnx.inliner
import onnx.shape_inference

from collage_dsl.frontend.onnx_inlined import give_defaults
from collage_dsl.frontend.onnx_limits import is_known
from collage_dsl.frontend.onnx_opaque import Opaque
from collage_dsl.frontend.onnx_scope import rename
from collage_dsl.onnx_nodes import graphs_of

_MOST = 16
"""The most nodes of a body. For what takes more, a library has a better kernel than the sum."""


def body_of(
    found: Opaque, converters: Collection[str], fresh: Callable[[str], str]
) -> onnx.GraphProto | None:
    """
    The graph that computes what the node does, by operators that all have `converters`; None if
    there is none. It takes the operands of the node, and its outputs are the results, by other
    names; `fresh` gives a name to each value inside.
    """
    model = onnx.ModelProto.FromString(found.node.model)
    (node,) = model.graph.node
    schema = _function(node, model)
    if model.graph.initializer or schema is None:
        return None
    give_defaults(node, schema)
    try:
        inlined = onnx.inliner.inline_selected_functions(
            model, [(node.domain, node.op_type)], inline_schema_functions=True
        )
    except RuntimeError:  # It does not know the type of a value.
        return None
    graph = inlined.graph
    if not _has_ranks(inlined, found):
        return None
    if len(graph.node) > _MOST or not all(
        is_known(each, converters) and not any(graphs_of(each)) for each in graph.node
    ):
        return None
    operands = {value.name: name for value, name in zip(graph.input, found.operands, strict=True)}
    del graph.input[:]
    rename(graph, operands, fresh)
    return graph


def _has_ranks(inlined: onnx.ModelProto, found: Opaque) -> bool:
    """Whether the results have the ranks of the node's. The body of `Celu` adds one to a scalar."""
    try:
        inferred = onnx.shape_inference.infer_shapes(inlined)
    except onnx.shape_inference.InferenceError:
        return False
    return all(
        not value.type.tensor_type.HasField("shape")
        or not type_.tensor_type.HasField("shape")
        or len(value.type.tensor_type.shape.dim) == len(type_.tensor_type.shape.dim)
        for value, type_ in zip(inferred.graph.output, found.types, strict=True)
    )


def of_standard(node: onnx.NodeProto, opset: int) -> onnx.NodeProto:
    """
    `node`, as an operator of the standard if it is a copy of one. Optimisations of onnxruntime take
    its copy of `QLinearConv`, in the order of the standard, for one with channels at the end.
    """
    is_copy = node.domain == "com.microsoft" and node.op_type == "QLinearConv"
    if not is_copy or opset < 10 or any(a.i for a in node.attribute if a.name == "channels_last"):
        return node
    result = onnx.NodeProto()
    result.CopyFrom(node)
    result.ClearField("domain")
    kept = [a for a in node.attribute if a.name != "channels_last"]
    del result.attribute[:]
    result.attribute.extend(kept)
    return result


def _function(node: onnx.NodeProto, model: onnx.ModelProto) -> onnx.defs.OpSchema | None:
    versions = {each.domain: each.version for each in model.opset_import}
    try:
        schema = onnx.defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain)
    except onnx.defs.SchemaError:
        return None
    return schema if schema.has_function or schema.has_context_dependent_function else None
