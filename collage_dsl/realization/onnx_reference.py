"""The right results of a graph: written as ONNX, and run by onnxruntime without optimisations."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

from collage_dsl.backends.onnx_writer import to_onnx
from collage_dsl.graph import Graph
from collage_dsl.offline import onnxruntime

Array = np.ndarray[Any, Any]

_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)

_SHAKE = 2.0**-21
"""How much inputs are changed to see what rounding does: a few units of the precision."""


class Reference:
    """
    Computes the outputs of a graph, with tuples flattened, from its inputs. Raises `Unsupported`
    for a graph that cannot be written as ONNX.
    """

    def __init__(self, graph: Graph) -> None:
        self.model, self.constants = to_onnx(graph)
        self.session = _session(self.model, self.constants)
        self.names = [value.name for value in self.session.get_inputs()]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        feeds = dict(zip(self.names, inputs, strict=True))
        return list(self.session.run(None, feeds))

    def doubtful(self, inputs: Sequence[Array]) -> Iterator[list[Array]]:
        """
        Outputs that are as right as those of `run`: computed in float64, and from inputs that
        differ by rounding. They take much longer.
        """
        yield self.in_float64(inputs)
        generator = np.random.default_rng(0)
        for _ in range(2):
            yield self.run([_shaken(array, generator) for array in inputs])

    def in_float64(self, inputs: Sequence[Array]) -> list[Array]:
        evaluator = ReferenceEvaluator(_in_float64(self.model, self.constants))
        feeds = {n: _widened(array) for n, array in zip(self.names, inputs, strict=True)}
        with np.errstate(all="ignore"):
            return [np.asarray(array) for array in evaluator.run(None, feeds)]


def _session(model: onnx.ModelProto, constants: dict[str, Array]) -> Any:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # Else each session has threads of its own.
    options.add_session_config_entry("session.disable_prepacking", "1")  # Keeps weights once.
    kept = {n: onnxruntime.OrtValue.ortvalue_from_numpy(a) for n, a in constants.items()}
    options.add_external_initializers(list(kept), list(kept.values()))
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _shaken(array: Array, generator: np.random.Generator) -> Array:
    if array.dtype.kind != "f":
        return array
    unit = max(_SHAKE, 4 * float(np.finfo(array.dtype).eps))
    factors = 1 + unit * generator.choice((-1.0, 1.0), array.shape)
    return np.asarray(array * factors, array.dtype)


def _widened(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _in_float64(model: onnx.ModelProto, constants: dict[str, Array]) -> onnx.ModelProto:
    """`model` with `constants` inside, and float64 in place of other floating point types."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for tensor in result.graph.initializer:
        array = constants.get(tensor.name)
        array = numpy_helper.to_array(tensor) if array is None else array
        tensor.CopyFrom(numpy_helper.from_array(_widened(array), tensor.name))
    for value in (*result.graph.input, *result.graph.output):
        if value.type.tensor_type.elem_type in _FLOATS:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in result.graph.node:
        for attribute in node.attribute:
            if attribute.name == "to" and attribute.i in _FLOATS:
                attribute.i = TensorProto.DOUBLE
            elif attribute.type == onnx.AttributeProto.TENSOR:
                array = _widened(numpy_helper.to_array(attribute.t))
                attribute.t.CopyFrom(numpy_helper.from_array(array, attribute.t.name))
    return result
