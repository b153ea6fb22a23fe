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
