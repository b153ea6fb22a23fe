"""Small ONNX models for tests, with seeded random weights."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def small_product() -> onnx.ModelProto:
    """A matrix product and a relu: few kernels, for tests that measure them."""
    array = np.random.default_rng(4).normal(0, 0.3, (6, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 3])],
        [numpy_helper.from_array(array, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def small_convolution(channels: int = 8) -> onnx.ModelProto:
    """Convolution, bias, relu, pooling, a matrix product with bias, softmax."""
    generator = np.random.default_rng(7)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        array = generator.normal(0, 0.3, shape).astype(np.float32)
        return numpy_helper.from_array(array, name)

    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["conv"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv"], ["relu"]),
        helper.make_node("GlobalAveragePool", ["relu"], ["pool"]),
        helper.make_node("Flatten", ["pool"], ["flat"]),
        helper.make_node("Gemm", ["flat", "g", "h"], ["gemm"]),
        helper.make_node("Softmax", ["gemm"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 12, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [
            weight("w", channels, 3, 3, 3),
            weight("b", channels),
            weight("g", channels, 10),
            weight("h", 10),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def transformer_block(tokens: int = 16, heads: int = 2, size: int = 32) -> onnx.ModelProto:
    """Attention of several heads and a feed-forward network, with layer norm and GELU before."""
    generator = np.random.default_rng(11)
    weights: list[onnx.TensorProto] = []
    nodes: list[onnx.NodeProto] = []

    def constant(name: str, array: np.ndarray) -> str:
        weights.append(numpy_helper.from_array(array, name))
        return name

    def node(op: str, inputs: list[str], output: str, **attributes: object) -> str:
        nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def dense(x: str, name: str, rows: int, columns: int) -> str:
        weight = generator.normal(0, rows**-0.5, (rows, columns)).astype(np.float32)
        bias = generator.normal(0, 0.1, columns).astype(np.float32)
        product = node("MatMul", [x, constant(f"{name}.w", weight)], f"{name}.product")
        return node("Add", [product, constant(f"{name}.b", bias)], name)

    def norm(x: str, name: str) -> str:
        scale = constant(f"{name}.scale", generator.uniform(0.5, 1.5, size).astype(np.float32))
        shift = constant(f"{name}.shift", generator.normal(0, 0.1, size).astype(np.float32))
        return node("LayerNormalization", [x, scale, shift], name, axis=-1)

    def head(x: str, name: str, order: list[int]) -> str:
        shape = constant(f"{name}.shape", np.array([1, tokens, heads, size // heads], np.int64))
        split = node("Reshape", [dense(x, f"{name}.dense", size, size), shape], f"{name}.split")
        return node("Transpose", [split], name, perm=order)

    normed = norm("x", "norm1")
    query, value = (head(normed, name, [0, 2, 1, 3]) for name in ("query", "value"))
    key = head(normed, "key", [0, 2, 3, 1])
    factor = constant("factor", np.array((size // heads) ** -0.5, np.float32))
    scores = node("Mul", [node("MatMul", [query, key], "raw"), factor], "scores")
    mixed = node("MatMul", [node("Softmax", [scores], "attention", axis=-1), value], "mixed")
    whole = constant("whole", np.array([1, tokens, size], np.int64))
    back = node("Transpose", [mixed], "back", perm=[0, 2, 1, 3])
    joined = node("Reshape", [back, whole], "joined")
    residual = node("Add", ["x", dense(joined, "project", size, size)], "residual")
    hidden = dense(norm(residual, "norm2"), "hidden", size, 4 * size)
    root = constant("root", np.array(2**-0.5, np.float32))
    error = node("Erf", [node("Mul", [hidden, root], "scaled")], "erf")
    one = constant("one", np.array(1.0, np.float32))
    half = constant("half", np.array(0.5, np.float32))
    gate = node("Mul", [node("Add", [error, one], "shifted"), half], "gate")
    gelu = node("Mul", [hidden, gate], "gelu")
    node("Add", [residual, dense(gelu, "out", 4 * size, size)], "y")
    graph = helper.make_graph(
        nodes,
        "block",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, tokens, size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, tokens, size])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def mnist() -> onnx.ModelProto:
    """
    The MNIST model of the original design's example, which is that of the ONNX model zoo, with
    random weights: two convolutions padded by `auto_pad`, and a product with a reshaped weight.
    """
    generator = np.random.default_rng(7)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        array = generator.normal(0, 0.3, shape).astype(np.float32)
        return numpy_helper.from_array(array, name)

    def shape(name: str, *dims: int) -> onnx.TensorProto:
        return numpy_helper.from_array(np.array(dims, np.int64), name)

    same = {"auto_pad": "SAME_UPPER", "kernel_shape": [5, 5]}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["conv1"], **same),
        helper.make_node("Add", ["conv1", "b1"], ["plus1"]),
        helper.make_node("Relu", ["plus1"], ["relu1"]),
        helper.make_node("MaxPool", ["relu1"], ["pool1"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["pool1", "w2"], ["conv2"], **same),
        helper.make_node("Add", ["conv2", "b2"], ["plus2"]),
        helper.make_node("Relu", ["plus2"], ["relu2"]),
        helper.make_node("MaxPool", ["relu2"], ["pool2"], kernel_shape=[3, 3], strides=[3, 3]),
        helper.make_node("Reshape", ["pool2", "flat_shape"], ["flat"]),
        helper.make_node("Reshape", ["w3", "w3_shape"], ["w3_flat"]),
        helper.make_node("MatMul", ["flat", "w3_flat"], ["product"]),
        helper.make_node("Add", ["product", "b3"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "mnist",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 28, 28])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [
            weight("w1", 8, 1, 5, 5),
            weight("b1", 8, 1, 1),
            weight("w2", 16, 8, 5, 5),
            weight("b2", 16, 1, 1),
            shape("flat_shape", 1, 256),
            weight("w3", 16, 4, 4, 10),
            shape("w3_shape", 256, 10),
            weight("b3", 1, 10),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
