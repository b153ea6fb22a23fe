"""The right results of a graph: written as ONNX, and run by onnxruntime without optimisations."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from collage_dsl.backends.onnx_writer import to_onnx
from collage_dsl.crashes import without_crashes
from collage_dsl.exact_products import exact
from collage_dsl.graph import Graph, OpSet, members, tensors
from collage_dsl.graph.arrays import Array
from collage_dsl.in_float32 import without_bfloat16, without_float64
from collage_dsl.offline import onnxruntime
from collage_dsl.realization.objects import run_session
from collage_dsl.realization.reference_run import run_reference
from collage_dsl.realization.shaken import (
    SHAKE,
    SUM_SHAKE,
    decides,
    is_float,
    scaled,
    shaken,
    with_shaken_values,
)

_SHORT = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
_FLOATS = (TensorProto.FLOAT, *_SHORT)

_SHAKEN = 2
"""How often they are changed."""

SUMS_SHAKEN = 24
"""
How often. A float next to half of an integer, which the smallest error rounds to the next one, is
rounded there in about every other of these runs.
"""

_PRECISION = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
"""
For values of these types inside a model. onnxruntime leaves out a cast to them and back, even
without optimisations, which changes a value by as much.
"""


class Reference:
    """
    Computes the outputs of a graph, with tuples flattened, from its inputs. Raises `Unsupported`
    for a graph that cannot be written as ONNX.
    """

    def __init__(self, graph: Graph) -> None:
        self.model, self.constants = to_onnx(graph)
        self.session = _session(self.model, self.constants)
        self.names = [value.name for value in self.session.get_inputs()]
        self.unit = unit_of(graph)
        self.decides = decides(self.model)
        self.casts = [node for node in self.model.graph.node if _limits(node)]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        feeds = dict(zip(self.names, inputs, strict=True))
        return list(run_session(self.session, feeds).values())

    def is_defined(self, inputs: Sequence[Array]) -> bool:
        """
        Whether no float is made an integer that cannot hold it: what that gives is not defined.
        """
        if not self.casts:
            return True
        feeds = dict(zip(self.names, inputs, strict=True))
        values = self.constants | feeds | run_session(self._before_casts, feeds)
        return all(_fits(values[node.input[0]], *_limits(node)) for node in self.casts)

    @cached_property
    def _before_casts(self) -> Any:
        """A session that gives what the casts take, and the outputs."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        known = {*self.constants, *self.names, *(each.name for each in model.graph.output)}
        made = {node.input[0] for node in self.casts} - known
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(made))
        return _session(model, self.constants)

    def doubtful(self, inputs: Sequence[Array]) -> Iterator[list[Array]]:
        """
        Outputs that are as right as those of `run`: computed in float64, and from inputs that
        differ by rounding. They take much longer.
        """
        feeds = dict(zip(self.names, inputs, strict=True))
        for found in evaluated(self.model, feeds, self.constants):
            yield list(found.values())
        generator = np.random.default_rng(0)
        for _ in range(_SHAKEN):
            yield self.run([shaken(array, generator, self.unit) for array in inputs])

    def near(self, inputs: Sequence[Array]) -> Iterator[list[Array]]:
        """
        Outputs of which integers may be as right as those of `run`: sums that are rounded to them
        are computed from operands that differ by what rounding does to a long sum. If inputs do,
        weights and values inside differ by less in other runs: inputs may be rounded twice, and the
        first integers hide how near the second ones are to others.
        """
        change = SUM_SHAKE
        if any(map(is_float, inputs)):
            yield from map(self.run, summed_otherwise(inputs, self.unit))
            change = SHAKE
        whole, generator = _with_constants(self.model, self.constants), np.random.default_rng(0)
        for _ in range(SUMS_SHAKEN):
            session = _session(with_shaken_values(whole, generator, change), {})
            yield list(run_session(session, dict(zip(self.names, inputs, strict=True))).values())


_WIDE = {
    TensorProto.INT64: (-(2.0**63), 2.0**63),
    TensorProto.UINT32: (-(2.0**31), 2.0**32),
    TensorProto.UINT64: (0.0, 2.0**63),
}
_NARROW = dict.fromkeys(
    (
        *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32),
        *(TensorProto.UINT8, TensorProto.UINT16),
    ),
    (-(2.0**31), 2.0**31),
)
"""
Of which number on, and up to which one, onnxruntime makes floats integers in one way: the last bits
of a wider one.
"""


def _limits(node: onnx.NodeProto) -> tuple[float, float] | tuple[()]:
    """The numbers that a cast takes; none for other operators, and for casts to other types."""
    if node.op_type != "Cast":
        return ()
    to = next(attribute.i for attribute in node.attribute if attribute.name == "to")
    return (_WIDE | _NARROW).get(to, ())


def _fits(array: Array, low: float, high: float) -> bool:
    """Whether all numbers are integers, or are in this range when they are rounded toward zero."""
    if array.dtype.kind in "biu":
        return True
    numbers = np.trunc(array.astype(np.float64))
    return bool(((numbers >= low) & (numbers < high)).all())


def evaluated(
    model: onnx.ModelProto,
    inputs: Mapping[str, Array],
    constants: Mapping[str, Array] | None = None,
) -> Iterator[dict[str, Array]]:
    """
    The outputs of `model`, with `constants` inside, by the reference implementation of ONNX: in
    float64, and, if it has shorter floats than float32, with every value rounded to its type. None
    where the reference lacks an operator.
    """
    known = constants or {}
    wide = {name: _widened(array) for name, array in inputs.items()}
    yield from _evaluated(lambda: _in_float64(model, known), wide)
    if _is_short(model):
        yield from _evaluated(lambda: _with_constants(model, known), inputs)


def _evaluated(
    made: Callable[[], onnx.ModelProto], inputs: Mapping[str, Array]
) -> Iterator[dict[str, Array]]:
    try:
        model = made()
        with np.errstate(all="ignore"):
            found = run_reference(model, inputs)
    except Exception:  # Of many kinds, where the reference lacks an operator.
        return
    names = [value.name for value in model.graph.output]
    yield {name: np.asarray(array) for name, array in zip(names, found, strict=True)}


def _is_short(model: onnx.ModelProto) -> bool:
    """Whether a model has values of fewer bits than float32."""
    graph = model.graph
    values = (*graph.input, *graph.output, *graph.value_info)
    types = {each.data_type for each in graph.initializer}
    types |= {each.type.tensor_type.elem_type for each in values}
    types |= {a.i for node in graph.node for a in node.attribute if a.name == "to"}
    return not types.isdisjoint(_SHORT)


def _session(model: onnx.ModelProto, constants: dict[str, Array]) -> Any:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # Else each session has threads of its own.
    options.add_session_config_entry("session.disable_prepacking", "1")  # Keeps weights once.
    kept = {name: _lent(array) for name, array in constants.items()}
    options.add_external_initializers(list(kept), list(kept.values()))
    typed = without_float64(without_bfloat16(model))
    used = exact(without_crashes(typed)).SerializeToString()
    return onnxruntime.InferenceSession(used, options, providers=["CPUExecutionProvider"])


def _lent(array: Array) -> Any:
    """An array as a value of onnxruntime in the same memory."""
    if array.dtype.isbuiltin == 1:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    bits, dtype = array.view(f"u{array.itemsize}"), helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, dtype)


def quantizes(graph: Graph, inside: OpSet) -> bool:
    """Whether nodes of a graph make integers of floating point numbers, by a scale."""
    return any(graph.nodes[index].op == "quantize" for index in members(inside))


def unit_of(graph: Graph) -> float:
    """How much rounding changes a value at most."""
    types = (tensor.dtype for node in graph.nodes for tensor in tensors(node.type))
    return max((_PRECISION.get(dtype, SHAKE) for dtype in types), default=SHAKE)


def summed_otherwise(inputs: Sequence[Array], unit: float) -> Iterator[list[Array]]:
    """Inputs that differ by what the order of a long sum does; `unit` is at least the change."""
    change = max(unit, SUM_SHAKE)
    for direction in (1 - change, 1 + change):
        yield [scaled(array, np.asarray(direction)) for array in inputs]
    generator = np.random.default_rng(0)
    for _ in range(SUMS_SHAKEN - 2):
        yield [shaken(array, generator, change) for array in inputs]


def _widened(array: Array) -> Array:
    return array.astype(np.float64) if is_float(array) else array


def _in_float64(model: onnx.ModelProto, constants: Mapping[str, Array]) -> onnx.ModelProto:
    """`model` with `constants` inside, and float64 in place of other floating point types."""
    result = _with_constants(model, constants)
    for tensor in result.graph.initializer:
        array = numpy_helper.to_array(tensor)
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


def _with_constants(model: onnx.ModelProto, constants: Mapping[str, Array]) -> onnx.ModelProto:
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for tensor in result.graph.initializer:
        if tensor.name in constants:
            array = constants[tensor.name]
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return result
