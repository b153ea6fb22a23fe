"""The exact result of a model: in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from engines import Array, Inputs, modern
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun


class LRN(OpRun):
    """onnx's own leaves out the last channel of each window."""

    op_domain = ""

    def _run(self, x: Array, **attributes: Any) -> tuple[Array]:
        size = attributes["size"]
        before, channels = (size - 1) // 2, x.shape[1]
        padding = [(0, 0), (before, size - 1 - before), (0, 0), (0, 0)]
        squares = np.pad(x * x, padding)
        sums = sum(squares[:, start : start + channels] for start in range(size))
        scale = (attributes.get("bias") or 1.0) + (attributes["alpha"] / size) * sums
        return (x / scale ** attributes["beta"],)


def exact(model: onnx.ModelProto, inputs: Inputs) -> Array:
    """The result in float64 by the reference implementation of the onnx package."""
    evaluator = ReferenceEvaluator(in_float64(modern(model)), new_ops=[LRN])
    (result,) = evaluator.run(None, {name: each.astype("float64") for name, each in inputs.items()})
    return np.asarray(result)


def in_float64(model: onnx.ModelProto) -> onnx.ModelProto:
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for tensor in wide.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(tensor).astype("float64")
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for node in wide.graph.node:
        for attribute in node.attribute:
            if attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE
            if attribute.t.data_type == TensorProto.FLOAT:
                array = numpy_helper.to_array(attribute.t).astype("float64")
                attribute.t.CopyFrom(numpy_helper.from_array(array))
    for value in (*wide.graph.input, *wide.graph.output, *wide.graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    return wide


def error(result: Array, expected: Array) -> float:
    """The largest difference, relative to the largest value."""
    difference = np.abs(result.reshape(expected.shape) - expected).max()
    return float(difference / np.abs(expected).max())
