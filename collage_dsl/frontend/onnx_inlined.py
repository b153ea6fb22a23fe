"""Replace the calls of the functions of an ONNX model by their bodies."""

import onnx
import onnx.inliner
import onnx.shape_inference

from collage_dsl.frontend.errors import FrontendError
from collage_dsl.frontend.onnx_check import called, check_functions, schema_of
from collage_dsl.frontend.onnx_own_outputs import with_own_outputs
from collage_dsl.onnx_nodes import nodes_within


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` without functions. Raises `FrontendError` where they cannot be replaced."""
    check_functions(model)
    version = _versions(model).get("")
    known = _with_same_operators(_with_versions(_with_defaults(with_own_outputs(model))), version)
    others = [each for each in known.functions if _versions(each).get("", version) != version]
    if not others:
        return onnx.inliner.inline_local_functions(known)
    for each in others:
        for node in nodes_within(each.node):
            if node.domain in _STANDARD and _is_mistaken(
                node.op_type, _versions(each)[""], version
            ):
                raise _unconverted(each, version, f"`{node.op_type}`")
    try:
        known = onnx.shape_inference.infer_shapes(known)  # The converter needs the types.
        return onnx.inliner.inline_local_functions(known, convert_version=True)
    except (RuntimeError, onnx.shape_inference.InferenceError) as error:
        raise _unconverted(others[0], version, "it") from error


def _unconverted(function: onnx.FunctionProto, version: int | None, what: str) -> FrontendError:
    return FrontendError(
        f"the function `{function.name}` of the model is of operator set "
        f"{_versions(function)['']}, the model of {version}, and ONNX cannot convert {what}: "
        "export the function in the set of the model"
    )


_CHANGED_IN = {
    "GroupNormalization": 21,
    "Hardmax": 13,
    "Resize": 11,
    "Scan": 9,
    "Upsample": 10,
}
"""
Operators that mean something else since this set, which ONNX's converter does not heed: until then,
`GroupNormalization` had a scale for each group, `Hardmax` one maximum for several axes, and
`Resize` another place for each element.
"""


def _is_mistaken(op: str, one: int, other: int | None) -> bool:
    """Whether the converter makes something else of an operator."""
    changed = _CHANGED_IN.get(op, 0)
    return other is not None and min(one, other) < changed <= max(one, other)


_STANDARD = ("", "ai.onnx")


def is_read_otherwise(model: onnx.ModelProto) -> bool:
    """
    Whether onnxruntime takes a function of `model` for something else than ONNX says: it reads a
    body in the operator set of the model, and calls its own operator where a function has the name
    of one.
    """
    version = _versions(model).get("")
    return any(
        _versions(each).get("", version) != version or onnx.defs.has(each.name, _domain(each))
        for each in model.functions
    )


def _domain(function: onnx.FunctionProto) -> str:
    return "" if function.domain == "ai.onnx" else function.domain


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
            if each.domain not in _STANDARD:
                each.version = versions.get(each.domain, each.version)
    return result


def _with_same_operators(model: onnx.ModelProto, version: int | None) -> onnx.ModelProto:
    """
    `model`, in which functions are of the `version` of the model if their operators mean the same
    in it: ONNX's converter needs the types of all values, and does not find all.
    """
    if version is None:
        return model
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for function in result.functions:
        own = _versions(function).get("", version)
        standard = (node for node in nodes_within(function.node) if node.domain in _STANDARD)
        if all(_is_same(node.op_type, own, version) for node in standard):
            for each in function.opset_import:
                if each.domain in _STANDARD:
                    each.version = version
    return result


def _is_same(op: str, one: int, other: int) -> bool:
    """Whether an operator of the standard differs in two versions by its types at most."""
    if _is_mistaken(op, one, other):
        return False
    schemas = schema_of(op, one, ""), schema_of(op, other, "")
    if schemas[0] is None or schemas[1] is None:
        return False
    return _signature(schemas[0]) == _signature(schemas[1])


def _signature(schema: onnx.defs.OpSchema) -> tuple[object, ...]:
    """What an operator takes and gives, and its attributes, without types."""
    return (
        [(each.name, each.option) for each in (*schema.inputs, *schema.outputs)],
        len(schema.inputs),
        {
            name: (each.type, each.required, each.default_value.SerializeToString())
            for name, each in schema.attributes.items()
        },
    )


def _with_defaults(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model`, in which each call gives all attributes: the inliner of ONNX has no defaults."""
    if not any(each.attribute_proto for each in model.functions):
        return model
    result = onnx.ModelProto()
    result.CopyFrom(model)
    functions = {(each.domain, each.name, each.overload): each for each in result.functions}
    for body in (result.graph, *result.functions):
        for node in nodes_within(body.node):
            function = functions.get(called(node))
            given = {attribute.name for attribute in node.attribute}
            defaults = function.attribute_proto if function else ()
            node.attribute.extend(each for each in defaults if each.name not in given)
    return result
