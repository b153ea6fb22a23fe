"""Replace the calls of the functions of an ONNX model by their bodies."""

from collections.abc import Iterable, Iterator

import onnx
import onnx.inliner
import onnx.shape_inference

from collage_dsl.frontend.errors import FrontendError
from collage_dsl.frontend.onnx_check import called, check_functions
from collage_dsl.frontend.onnx_scope import graphs_of


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` without functions. Raises `FrontendError` where they cannot be replaced."""
    check_functions(model)
    known, version = _with_versions(_with_defaults(model)), _versions(model).get("")
    others = [each for each in known.functions if _versions(each).get("", version) != version]
    if not others:
        return onnx.inliner.inline_local_functions(known)
    try:
        known = onnx.shape_inference.infer_shapes(known)  # The converter needs the types.
        return onnx.inliner.inline_local_functions(known, convert_version=True)
    except (RuntimeError, onnx.shape_inference.InferenceError) as error:
        raise FrontendError(
            f"the function `{others[0].name}` of the model is of operator set "
            f"{_versions(others[0])['']}, the model of {version}, and ONNX cannot convert it: "
            "export the function in the set of the model"
        ) from error


def give_defaults(node: onnx.NodeProto, schema: onnx.defs.OpSchema) -> None:
    """Give all attributes of a call of the operator of `schema`: the inliner has no defaults."""
    given = {attribute.name for attribute in node.attribute}
    defaults = (each.default_value for each in schema.attributes.values())
    node.attribute.extend(each for each in defaults if each.name and each.name not in given)


def _versions(scope: onnx.ModelProto | onnx.FunctionProto) -> dict[str, int]:
    """The version of each domain; the standard one is named by the empty text."""
    names = {"ai.onnx": ""}
    return {names.get(each.domain, each.domain): each.version for each in scope.opset_import}


def _with_versions(model: onnx.ModelProto) -> onnx.ModelProto:
    """
    `model`, in which functions import domains but the standard one in the versions of the model, as
    onnxruntime takes them. The inliner of ONNX leaves out functions with other versions, which
    jax2onnx writes.
    """
    versions = {each.domain: each.version for each in model.opset_import}
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for function in result.functions:
        for each in function.opset_import:
            if each.domain not in ("", "ai.onnx"):
                each.version = versions.get(each.domain, each.version)
    return result


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
