"""Small ONNX models for tests, with seeded random weights."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


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
