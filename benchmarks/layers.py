"""Write ONNX models by layers, with random weights (from a fixed seed)."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, sqrt
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Shape = tuple[int, ...]


class Layers:
    """An ONNX model that is being written. A method adds a layer and returns its result's name."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.weights: list[Any] = []

    def input(self, *shape: int) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape))
        return name

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, values: Any, dtype: str = "float32") -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def weight(self, *shape: int, deviation: float = 1.0, mean: float = 0.0) -> str:
        values = self.random.standard_normal(shape, np.float32)
        values *= np.float32(deviation)
        values += np.float32(mean)
        return self.constant(values)

    def model(self, result: str, shape: Sequence[int] | None = None) -> onnx.ModelProto:
        """The model with the output `result`."""
        made = helper.make_tensor_value_info(result, onnx.TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, "model", self.inputs, [made], self.weights)
        opset = [helper.make_opsetid("", 20)]
        return helper.make_model(graph, opset_imports=opset, ir_version=9)

    # Layers.

    def conv(
        self,
        x: str,
        taken: int,
        made: int,
        size: int | tuple[int, int] = 3,
        stride: int = 1,
        groups: int = 1,
        pad: int | tuple[int, int] | None = None,
    ) -> str:
        """Convolution and bias. By default the image keeps its size, divided by the stride."""
        high, wide = (size, size) if isinstance(size, int) else size
        if pad is None:
            pad = (high // 2, wide // 2)
        down, right = (pad, pad) if isinstance(pad, int) else pad
        fan_in = taken // groups * high * wide
        weight = self.weight(made, taken // groups, high, wide, deviation=sqrt(2 / fan_in))
        bias = self.weight(made, deviation=0.1)
        pads, strides = [down, right, down, right], [stride, stride]
        return self.node("Conv", x, weight, bias, group=groups, pads=pads, strides=strides)

    def relu(self, x: str) -> str:
        return self.node("Relu", x)

    def relu6(self, x: str) -> str:
        return self.node("Clip", x, self.constant(0), self.constant(6))

    def linear(self, x: str, taken: int, made: int) -> str:
        """Product and bias of tokens: the last axis of `x` is that of features."""
        weight = self.weight(taken, made, deviation=sqrt(1 / taken))
        return self.node("Add", self.node("MatMul", x, weight), self.weight(made, deviation=0.1))

    def fully_connected(self, x: str, taken: int, made: int) -> str:
        weight = self.weight(made, taken, deviation=sqrt(1 / taken))
        return self.node("Gemm", x, weight, self.weight(made, deviation=0.1), transB=1)

    def layer_norm(self, x: str, width: int) -> str:
        scale = self.weight(width, deviation=0.1, mean=1.0)
        return self.node("LayerNormalization", x, scale, self.weight(width, deviation=0.1), axis=-1)

    def inverted(self, x: str, taken: int, inner: int, made: int, stride: int = 1) -> str:
        """A block of MobileNetV2: pointwise if `inner` is larger, depthwise, pointwise, and `x`."""
        y = self.relu6(self.conv(x, taken, inner, 1)) if inner > taken else x
        y = self.relu6(self.conv(y, inner, inner, 3, stride, inner))
        y = self.conv(y, inner, made, 1)
        return self.node("Add", x, y) if taken == made and stride == 1 else y

    def attention(self, q: str, k: str, v: str, width: int, mask: str = "") -> str:
        """Of heads: the operands are [batch, heads, tokens, width]. `mask` is added to scores."""
        scores = self.node("MatMul", q, self.node("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self.node("Mul", scores, self.constant(1 / sqrt(width)))
        if mask:
            scores = self.node("Add", scores, mask)
        return self.node("MatMul", self.node("Softmax", scores, axis=-1), v)

    def self_attention(self, x: str, tokens: int, width: int, heads: int, mask: str = "") -> str:
        """Queries, keys and values by one product, attention of the heads, and a product."""
        each = width // heads
        shape = self.constant([1, tokens, heads, each], "int64")
        parts = self.split(self.linear(x, width, 3 * width), 3)
        q, k, v = (
            self.node("Transpose", self.node("Reshape", part, shape), perm=[0, 2, 1, 3])
            for part in parts
        )
        y = self.node("Transpose", self.attention(q, k, v, each, mask), perm=[0, 2, 1, 3])
        y = self.node("Reshape", y, self.constant([1, tokens, width], "int64"))
        return self.linear(y, width, width)

    def split(self, x: str, parts: int) -> list[str]:
        """Equal parts of the last axis."""
        names = [f"v{len(self.nodes)}.{index}" for index in range(parts)]
        self.nodes.append(helper.make_node("Split", [x], names, axis=-1, num_outputs=parts))
        return names

    def encoder(self, x: str, tokens: int, width: int, heads: int) -> str:
        """A layer of ViT."""
        y = self.self_attention(self.layer_norm(x, width), tokens, width, heads)
        x = self.node("Add", x, y)
        y = self.node("Gelu", self.linear(self.layer_norm(x, width), width, 4 * width))
        return self.node("Add", x, self.linear(y, 4 * width, width))

    def decoder(self, x: str, tokens: int, width: int, heads: int, mask: str) -> str:
        """A layer of GPT-2."""
        y = self.self_attention(self.layer_norm(x, width), tokens, width, heads, mask)
        x = self.node("Add", x, y)
        y = self.tanh_gelu(self.linear(self.layer_norm(x, width), width, 4 * width))
        return self.node("Add", x, self.linear(y, 4 * width, width))

    def tanh_gelu(self, x: str) -> str:
        """GELU by tanh, in the eight operators that exporters write."""
        cube = self.node("Pow", x, self.constant(3))
        inner = self.node("Add", x, self.node("Mul", cube, self.constant(0.044715)))
        tanh = self.node("Tanh", self.node("Mul", inner, self.constant(sqrt(2 / pi))))
        half = self.node("Mul", x, self.constant(0.5))
        return self.node("Mul", half, self.node("Add", tanh, self.constant(1)))


def random_inputs(model: onnx.ModelProto, seed: int = 1) -> dict[str, np.ndarray[Any, Any]]:
    """Values for the inputs that are no weights. Integers are 0 and 1, which any index can be."""
    random = np.random.default_rng(seed)
    weights = {tensor.name for tensor in model.graph.initializer}
    found = {}
    for value in model.graph.input:
        if value.name not in weights:
            of = value.type.tensor_type
            dtype = onnx.helper.tensor_dtype_to_np_dtype(of.elem_type)
            shape = [dim.dim_value for dim in of.shape.dim]
            is_float = np.issubdtype(dtype, np.floating)
            values = random.standard_normal(shape) if is_float else random.integers(0, 2, shape)
            found[value.name] = values.astype(dtype)
    return found
