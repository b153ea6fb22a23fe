"""
Nine standard image models with random weights, for tests and demonstrations.

The onnx package has them without real weights: each weight is one number repeated. Here each
weight gets random values of a size that keeps activations near one through the whole model. So
the outputs depend on every operator, and an error in any operator changes them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import erf, exp, pi, prod, sqrt
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import onnx
from onnx import numpy_helper

from collage_dsl.frontend.errors import FrontendError
from collage_dsl.graph.arrays import Array

_FILES: Mapping[str, str] = {
    "alexnet": "bvlc_alexnet",
    "densenet121": "densenet121",
    "inception_v1": "inception_v1",
    "inception_v2": "inception_v2",
    "resnet50": "resnet50",
    "shufflenet": "shufflenet",
    "squeezenet": "squeezenet",
    "vgg19": "vgg19",
    "zfnet512": "zfnet512",
}


def light_models() -> tuple[str, ...]:
    """The names that `light_model` accepts."""
    return tuple(_FILES)


def light_model(name: str, seed: int = 0) -> onnx.ModelProto:
    """The model `name` with random weights; the same in every process for the same `seed`."""
    if name not in _FILES:
        raise FrontendError(f"no light model is named `{name}`; there are {', '.join(_FILES)}")
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    model = onnx.load_model(folder / f"light_{_FILES[name]}.onnx")
    _replace_constants(model.graph, _Weights(model.graph, seed).arrays)
    return model


_KEPT = 0.5
"""
How much of the mean of its inputs a convolution keeps. With 1, as for independent weights, the
outputs hardly depend on the input after a few layers; with 0, rounding errors grow at every layer.
"""


@dataclass(frozen=True, slots=True)
class _Spread:
    """The approximate mean and variance of the elements of a value."""

    mean: float = 0.0
    variance: float = 1.0

    @property
    def square(self) -> float:
        return self.mean * self.mean + self.variance


class _Weights:
    """Chooses the weights of a model in the order of its nodes, and tracks each value's spread."""

    def __init__(self, graph: onnx.GraphProto, seed: int) -> None:
        self.seed = seed
        self.arrays: dict[str, Array] = {}
        self.origin: dict[str, str] = {}
        self.shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
        self.spreads: dict[str, _Spread] = {}
        linear = [node.output[0] for node in graph.node if node.op_type in ("Conv", "Gemm")]
        self.last_linear = linear[-1]
        self.residuals = {x for node in graph.node if node.op_type == "Sum" for x in node.input}
        initializers = {tensor.name: tensor for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type == "ConstantOfShape":
                shape = numpy_helper.to_array(initializers[node.input[0]])
                self.shapes[node.output[0]] = tuple(int(dim) for dim in shape)
            elif node.input[0] in self.shapes:
                self.origin[node.output[0]] = node.input[0]
            else:
                self.visit(node)

    def visit(self, node: onnx.NodeProto) -> None:
        chosen = _SPREADS.get(node.op_type)
        spreads = [self.spreads.get(name, _Spread()) for name in node.input]
        self.spreads[node.output[0]] = chosen(self, node, spreads) if chosen else spreads[0]

    def uniform(self, name: str, mean: float, deviation: float) -> None:
        """Fill the parameter `name` with values of this mean and standard deviation."""
        name = self.origin.get(name, name)
        random = np.random.default_rng((self.seed, crc32(name.encode())))
        values = random.random(self.shapes[name], dtype=np.float32)
        values -= np.float32(0.5)
        values *= np.float32(sqrt(12.0) * deviation)
        values += np.float32(mean)
        self.arrays[name] = values

    def centre(self, name: str, rows: int) -> None:
        """Remove most of the sum of each row of the parameter `name`."""
        values = self.arrays[self.origin.get(name, name)].reshape(rows, -1)
        values -= (1 - _KEPT) * values.mean(axis=1, keepdims=True)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.shapes[self.origin.get(name, name)]


_Rule = Callable[[_Weights, onnx.NodeProto, list[_Spread]], _Spread]


def _linear(weights: _Weights, node: onnx.NodeProto, spreads: list[_Spread]) -> _Spread:
    # The last one is made larger, so that the classes differ.
    gain = 2.0 if node.output[0] == weights.last_linear else 1.0
    # A weight may be reshaped on its way here, but has as many rows as the bias elements.
    rows = weights.shape(node.input[-1])[0]
    fan_in = prod(weights.shape(node.input[1])) // rows
    square = spreads[0].variance + (_KEPT * spreads[0].mean) ** 2
    weights.uniform(node.input[1], 0.0, gain / sqrt(fan_in * square))
    weights.centre(node.input[1], rows)
    if len(node.input) > 2:
        weights.uniform(node.input[2], 0.0, 0.1 if gain == 1.0 else 1.0)
    return _Spread(variance=gain * gain)


def _batch_norm(weights: _Weights, node: onnx.NodeProto, spreads: list[_Spread]) -> _Spread:
    _, scale, bias, mean, variance = node.input
    deviation = sqrt(spreads[0].variance)
    # Small residuals, as after training. With large ones, rounding errors grow at each of them.
    gain = 0.4 if node.output[0] in weights.residuals else 1.0
    weights.uniform(scale, gain, 0.1 * gain)
    weights.uniform(bias, 0.0, 0.1)
    weights.uniform(mean, spreads[0].mean, 0.1 * deviation)
    weights.uniform(variance, spreads[0].variance, 0.1 * spreads[0].variance)
    return _Spread(variance=gain * gain)


def _multiply(weights: _Weights, node: onnx.NodeProto, spreads: list[_Spread]) -> _Spread:
    weights.uniform(node.input[1], 1.0, 0.1)
    return spreads[0]


def _add(weights: _Weights, node: onnx.NodeProto, spreads: list[_Spread]) -> _Spread:
    weights.uniform(node.input[1], 0.0, 0.1)
    return spreads[0]


def _relu(weights: _Weights, node: onnx.NodeProto, spreads: list[_Spread]) -> _Spread:
    """Exact for a normal distribution."""
    deviation = sqrt(spreads[0].variance)
    at_zero = spreads[0].mean / deviation
    positive = (1 + erf(at_zero / sqrt(2))) / 2
    density = exp(-at_zero * at_zero / 2) / sqrt(2 * pi)
    mean = spreads[0].mean * positive + deviation * density
    square = spreads[0].square * positive + spreads[0].mean * deviation * density
    return _Spread(mean, square - mean * mean)


def _max_pool(weights: _Weights, node: onnx.NodeProto, spreads: list[_Spread]) -> _Spread:
    """The factors were measured after a ReLU."""
    mean, variance = spreads[0].mean, spreads[0].variance
    return _Spread(mean + 1.1 * sqrt(variance), 1.35 * variance)


def _average_pool(weights: _Weights, node: onnx.NodeProto, spreads: list[_Spread]) -> _Spread:
    """The factor was measured: half of the variance is between channels, and stays."""
    return _Spread(spreads[0].mean, spreads[0].variance / 2)


def _sum(weights: _Weights, node: onnx.NodeProto, spreads: list[_Spread]) -> _Spread:
    return _Spread(sum(s.mean for s in spreads), sum(s.variance for s in spreads))


def _concat(weights: _Weights, node: onnx.NodeProto, spreads: list[_Spread]) -> _Spread:
    mean = sum(s.mean for s in spreads) / len(spreads)
    return _Spread(mean, sum(s.square for s in spreads) / len(spreads) - mean * mean)


_SPREADS: Mapping[str, _Rule] = {
    "Conv": _linear,
    "Gemm": _linear,
    "BatchNormalization": _batch_norm,
    "Mul": _multiply,
    "Add": _add,
    "Relu": _relu,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": _average_pool,
    "Sum": _sum,
    "Concat": _concat,
}


def _replace_constants(graph: onnx.GraphProto, arrays: Mapping[str, Array]) -> None:
    """Make `arrays` initializers, in place of the nodes and shapes that had their values."""
    nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    used = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in used - arrays.keys()]
    inputs = [value for value in graph.input if value.name in used - arrays.keys()]
    _set(graph.node, nodes)
    _set(graph.initializer, kept)
    _set(graph.input, inputs)
    for name, array in arrays.items():
        graph.initializer.append(numpy_helper.from_array(array, name))
        # Before version 4 of the format, every initializer is an input too.
        value = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, array.shape)
        graph.input.append(value)


def _set(field: Any, values: list[Any]) -> None:
    del field[:]
    field.extend(values)
