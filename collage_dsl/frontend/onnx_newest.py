"""Bring models of the newest versions of ONNX to those that onnxruntime knows."""

from collections.abc import Iterator

import onnx
import onnx.inliner
import onnx.shape_inference
from onnx import helper

from collage_dsl.frontend.errors import FrontendError
from collage_dsl.frontend.onnx_inlined import give_defaults, inlined
from collage_dsl.frontend.onnx_upgrade import opset_of
from collage_dsl.onnx_nodes import nodes_within

NEWEST_IR = 13
"""The newest version of the file format that onnxruntime reads."""
NEWEST_OPSET = 26
"""The newest operator set that onnxruntime knows."""
_ONLY_IN_ITS_SET = {"Swish": 24}
"""
Operators without a kernel in onnxruntime, which it replaces by the functions that define them only
in the operator set that they are from.
"""


def is_too_new(model: onnx.ModelProto) -> bool:
    """Whether onnxruntime refuses `model` for its versions, or for what it calls."""
    too_new = any(each.version > NEWEST_OPSET for each in _sets(model))
    return too_new or model.ir_version > NEWEST_IR or has_new_operators(model)


def has_new_operators(model: onnx.ModelProto) -> bool:
    """Whether `model` calls standard operators that onnxruntime does not know."""
    return bool(_new_operators(model))


def lowered(model: onnx.ModelProto) -> onnx.ModelProto:
    """
    `model` in versions that onnxruntime knows.

    Operators that are new are replaced by the functions that define them. The newer versions of
    others take more types, or have more attributes, and compute the same of what the older ones
    take; onnxruntime refuses the rest. Raises `FrontendError` if ONNX cannot replace an operator.
    """
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for part in (*_nodes(result), *_sets(result)):
        part.domain = ""  # Its other name, `ai.onnx`, is not known to the inliner of ONNX.
    if has_new_operators(result):
        result = _expanded(inlined(result) if result.functions else result)
    for node in _nodes(result):
        if onnx.defs.has(node.op_type) and _is_newer(node.op_type):
            _leave_out_defaults(node)
    result.ir_version = min(result.ir_version, NEWEST_IR)
    for each in _sets(result):
        each.version = min(each.version, NEWEST_OPSET)
    return result


def _expanded(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` with functions for its new operators, which may call others of them."""
    names = _new_operators(model)
    for node in _nodes(model):
        if node.op_type in names:
            give_defaults(node, onnx.defs.get_schema(node.op_type))
    try:
        known = onnx.shape_inference.infer_shapes(model)  # Some functions depend on types.
        expanded = onnx.inliner.inline_selected_functions(
            known, [("", name) for name in sorted(names)], inline_schema_functions=True
        )
    except (RuntimeError, onnx.shape_inference.InferenceError) as error:
        raise FrontendError(
            f"onnxruntime does not know `{min(names)}`, and ONNX cannot replace it by the "
            "operators that define it: export the model without it"
        ) from error
    left = _new_operators(expanded)
    return expanded if left in (set(), names) else _expanded(expanded)


def _is_newer(name: str) -> bool:
    """Whether there is an older version of an operator, and one that onnxruntime does not know."""
    is_new = onnx.defs.get_schema(name).since_version > NEWEST_OPSET
    return is_new and onnx.defs.has(name, NEWEST_OPSET)


def _leave_out_defaults(node: onnx.NodeProto) -> None:
    """Leave out attributes that are new, where a call has their defaults."""
    known = onnx.defs.get_schema(node.op_type, NEWEST_OPSET).attributes
    newest = onnx.defs.get_schema(node.op_type).attributes
    kept = [
        each
        for each in node.attribute
        if each.name in known
        or each.name not in newest
        or helper.get_attribute_value(each)
        != helper.get_attribute_value(newest[each.name].default_value)
    ]
    if len(kept) < len(node.attribute):
        copies = [onnx.AttributeProto.FromString(each.SerializeToString()) for each in kept]
        del node.attribute[:]
        node.attribute.extend(copies)


def _sets(model: onnx.ModelProto) -> Iterator[onnx.OperatorSetIdProto]:
    """The standard operator sets that a model and its functions import."""
    for scope in (model, *model.functions):
        yield from (each for each in scope.opset_import if each.domain in ("", "ai.onnx"))


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """The calls of standard operators, also those in graphs inside nodes and in functions."""
    for scope in (model.graph, *model.functions):
        yield from (each for each in nodes_within(scope.node) if each.domain in ("", "ai.onnx"))


def _new_operators(model: onnx.ModelProto) -> set[str]:
    called = {node.op_type for node in _nodes(model)}
    new = {name for name in called if onnx.defs.has(name) and not onnx.defs.has(name, NEWEST_OPSET)}
    version = opset_of(model)
    return new | {name for name, of in _ONLY_IN_ITS_SET.items() if name in called and version > of}
