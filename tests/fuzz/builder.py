"""Build an ONNX graph node by node, each with known shapes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

OPSET = 18
LARGEST = 4096
"""The most elements of a value."""

SHORT = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.FLOAT, *SHORT)
INTEGERS = (TensorProto.INT32, TensorProto.INT64)


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the model. It is `exact` if rounding cannot change it."""

    name: str
    dtype: int
    shape: Shape
    exact: bool

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(slots=True)
class Builder:
    """Adds nodes to a graph as long as shape inference finds them right."""

    chosen: Random
    values: list[Value] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    weights: list[TensorProto] = field(default_factory=list)
    nodes: list[NodeProto] = field(default_factory=list)
    indices: dict[str, int] = field(default_factory=dict)
    count: int = 0

    def name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def input(self, dtype: int, shape: Shape) -> Value:
        value = Value(self.name("x"), dtype, shape, exact=True)
        self.inputs.append(helper.make_tensor_value_info(value.name, dtype, shape))
        self.values.append(value)
        return value

    def index(self, valid: int, shape: Shape, dtype: int = TensorProto.INT64) -> str:
        """Indices below `valid`: an input, or a constant."""
        if self.chosen.random() < 0.5:
            name = self.name("i")
            self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
            self.indices[name] = valid
            return name
        return self.weight(self.numpy().integers(-valid, valid, shape))

    def weight(self, array: Array, dtype: int | None = None) -> str:
        name = self.name("w")
        if dtype is not None:
            array = array.astype(helper.tensor_dtype_to_np_dtype(dtype))
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def floats(self, dtype: int, *shape: int) -> str:
        return self.weight(self.numpy().normal(size=shape), dtype)

    def numpy(self) -> np.random.Generator:
        return np.random.default_rng(self.chosen.randrange(2**32))

    def any(self, holds: Callable[[Value], bool] = lambda value: True) -> Value:
        """One of the values, rather a late one. Raises `IndexError` if none fits."""
        fitting = [value for value in self.values if holds(value)]
        return self.chosen.choice(fitting[-3:])

    def float(self, *ranks: int) -> Value:
        return self.any(lambda v: v.is_float and (not ranks or v.rank in ranks))

    def axis(self, value: Value) -> int:
        return self.chosen.randrange(-value.rank, value.rank)

    def node(
        self, op: str, *inputs: str, outputs: int = 1, exact: bool = False, **attrs: Any
    ) -> None:
        """Add a node. Raises an error of `onnx` if it is wrong, and ValueError if too large."""
        names = [self.name("y") for _ in range(outputs)]
        made = helper.make_node(op, list(inputs), names, **attrs)
        types = _types(self.model([made], names, checked=False))
        found = [Value(n, *types[n], exact=exact) for n in names]
        if any(np.prod(v.shape) > LARGEST or 0 in v.shape for v in found):
            raise ValueError("too large, or empty")
        self.nodes.append(made)
        self.values += found

    def model(
        self, more: Sequence[NodeProto], outputs: Sequence[str], *, checked: bool
    ) -> ModelProto:
        results = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph(
            [*self.nodes, *more], "values", self.inputs, results, self.weights
        )
        opsets = [helper.make_opsetid("", OPSET)]
        made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return onnx.shape_inference.infer_shapes(made, strict_mode=True) if checked else made


def _types(model: ModelProto) -> dict[str, tuple[int, Shape]]:
    inferred = onnx.shape_inference.infer_shapes(model, True, True, True)
    return {
        each.name: static_type(each.type)
        for each in (*inferred.graph.value_info, *inferred.graph.output)
    }


def static_type(type_: TypeProto) -> tuple[int, Shape]:
    tensor = type_.tensor_type
    if not tensor.HasField("shape") or any(
        not dim.HasField("dim_value") for dim in tensor.shape.dim
    ):
        raise ValueError("its shape is not known")
    return tensor.elem_type, tuple(dim.dim_value for dim in tensor.shape.dim)
