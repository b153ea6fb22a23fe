"""Make ViT-tiny as an ONNX model, with seeded random weights: 224 by 224, patches of 16, f32."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH, HEADS, LAYERS, PATCH, SIDE, CLASSES = 192, 3, 12, 16, 14, 1000
TOKENS = SIDE * SIDE + 1


class _Model:
    """Collects nodes and weights; each method returns the name of the value that it adds."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def node(self, op: str, *inputs: str, **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def constant(self, array: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, *shape: int, spread: float = 0.1, mean: float = 0.0) -> str:
        return self.constant(self.random.normal(mean, spread, shape).astype(np.float32))

    def shaped(self, x: str, *shape: int) -> str:
        return self.node("Reshape", x, self.constant(np.array(shape, np.int64)))

    def dense(self, x: str, taken: int, made: int) -> str:
        product = self.node("MatMul", x, self.weight(taken, made, spread=taken**-0.5))
        return self.node("Add", product, self.weight(made))

    def norm(self, x: str) -> str:
        scale, shift = self.weight(WIDTH, mean=1.0), self.weight(WIDTH)
        return self.node("LayerNormalization", x, scale, shift, axis=-1)

    def head(self, x: str, order: tuple[int, ...]) -> str:
        parts = self.shaped(self.dense(x, WIDTH, WIDTH), 1, TOKENS, HEADS, WIDTH // HEADS)
        return self.node("Transpose", parts, perm=order)

    def attention(self, x: str) -> str:
        query, value = self.head(x, (0, 2, 1, 3)), self.head(x, (0, 2, 1, 3))
        key = self.head(x, (0, 2, 3, 1))
        factor = self.constant(np.array((WIDTH // HEADS) ** -0.5, np.float32))
        scores = self.node("Mul", self.node("MatMul", query, key), factor)
        mixed = self.node("MatMul", self.node("Softmax", scores, axis=-1), value)
        joined = self.shaped(self.node("Transpose", mixed, perm=(0, 2, 1, 3)), 1, TOKENS, WIDTH)
        return self.dense(joined, WIDTH, WIDTH)

    def gelu(self, x: str) -> str:
        root, one, half = (
            self.constant(np.array(number, np.float32)) for number in (2**-0.5, 1.0, 0.5)
        )
        error = self.node("Erf", self.node("Mul", x, root))
        gate = self.node("Mul", self.node("Add", error, one), half)
        return self.node("Mul", x, gate)


def vit_tiny() -> onnx.ModelProto:
    """The model: patches, twelve layers, and the classes of the first token."""
    model = _Model()
    patches = model.node(
        "Conv", "x", model.weight(WIDTH, 3, PATCH, PATCH, spread=0.04), model.weight(WIDTH),
        strides=[PATCH, PATCH],
    )  # fmt: skip
    tokens = model.node("Transpose", model.shaped(patches, 1, WIDTH, TOKENS - 1), perm=(0, 2, 1))
    x = model.node("Concat", model.weight(1, 1, WIDTH), tokens, axis=1)
    x = model.node("Add", x, model.weight(1, TOKENS, WIDTH))
    for _ in range(LAYERS):
        x = model.node("Add", x, model.attention(model.norm(x)))
        hidden = model.gelu(model.dense(model.norm(x), WIDTH, 4 * WIDTH))
        x = model.node("Add", x, model.dense(hidden, 4 * WIDTH, WIDTH))
    first = model.node("Gather", model.norm(x), model.constant(np.array(0, np.int64)), axis=1)
    classes = model.dense(first, WIDTH, CLASSES)
    graph = helper.make_graph(
        model.nodes,
        "vit_tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, PATCH * SIDE, PATCH * SIDE])],
        [helper.make_tensor_value_info(classes, TensorProto.FLOAT, [1, CLASSES])],
        model.weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
