"""
Products with weights of a few bits, without rounding.

Where a `MatMulNBits` has the accuracy level 4, onnxruntime rounds the other factor to bytes, if the
weights are constants of the session.
"""

from collections.abc import Iterator

import onnx

from collage_dsl.onnx_nodes import nodes_within

_LEVEL = "accuracy_level"
"""The attribute of `MatMulNBits` that allows other numbers than those of float32."""

_FLOAT32 = 1


def without_rounding(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model`, in which no factor may be rounded to fewer bits than those of float32."""
    if not any(each.i > _FLOAT32 for each in _levels(model)):
        return model
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for each in _levels(result):
        each.i = min(each.i, _FLOAT32)
    return result


def _levels(model: onnx.ModelProto) -> Iterator[onnx.AttributeProto]:
    for body in (model.graph, *model.functions):
        for node in nodes_within(body.node):
            yield from (each for each in node.attribute if each.name == _LEVEL)
