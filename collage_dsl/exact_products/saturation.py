"""
Products of bytes, without saturation.

Where a processor has no instruction for it (x86 without VNNI), onnxruntime adds two products of an
unsigned and a signed byte in 16 bits, and sums beyond 32767 become 32767. Nothing says so, and the
sum may be half of the right one. Products of two unsigned bytes are exact, and a signed byte with a
zero point is the same number as an unsigned one, 128 higher, with a zero point 128 higher.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache
from itertools import chain

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from collage_dsl.offline import onnxruntime
from collage_dsl.onnx_nodes import graphs_of, nodes_within

_ZERO_POINTS = {
    "ConvInteger": ((0, 2), (1, 3)),
    "MatMulInteger": ((0, 2), (1, 3)),
    "QLinearConv": ((0, 2), (3, 5)),
    "QLinearMatMul": ((0, 2), (3, 5)),
    "MatMulIntegerToFloat": ((0, 4), (1, 5)),
    "QGemm": ((0, 2), (3, 5)),
}
"""The places of the two factors of each operator, each with that of its zero point."""


def without_saturation(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` for onnxruntime here: products of an unsigned and a signed byte have two unsigned."""
    used = any(node.op_type in _ZERO_POINTS for node in nodes_within(model.graph.node))
    if not used or not saturates():
        return model
    result = onnx.ModelProto()
    result.CopyFrom(model)
    _replace(result.graph, _types(model))
    return result


@cache
def saturates() -> bool:
    """Whether products of an unsigned and a signed byte are wrong in onnxruntime here."""
    count = 64
    left, right = np.full((8, count), 255, np.uint8), np.full((count, 32), 127, np.int8)
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["left", "right"], ["sum"])],
        "bytes",
        [helper.make_tensor_value_info("left", TensorProto.UINT8, left.shape)],
        [helper.make_tensor_value_info("sum", TensorProto.INT32, None)],
        [numpy_helper.from_array(right, "right")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return bool((session.run(None, {"left": left})[0] != count * 255 * 127).any())


def _types(model: onnx.ModelProto) -> Mapping[str, int]:
    """The element type of each tensor whose type is known."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    values = chain(graph.input, graph.value_info, graph.output)
    known = {each.name: each.type.tensor_type.elem_type for each in values}
    return known | {each.name: each.data_type for each in graph.initializer}


def _replace(graph: onnx.GraphProto, types: Mapping[str, int]) -> None:
    nodes = [deepcopy(node) for node in graph.node]
    del graph.node[:]
    for node in nodes:
        for body in graphs_of(node):
            _replace(body, types)
        pairs = _ZERO_POINTS.get(node.op_type, ())
        factors = [types.get(node.input[place]) for place, _ in pairs]
        if sorted(map(str, factors)) == sorted((str(TensorProto.UINT8), str(TensorProto.INT8))):
            place, zero_point = pairs[factors.index(TensorProto.INT8)]
            node.input.extend([""] * (zero_point + 1 - len(node.input)))
            stem = f"{node.output[0]}:unsigned"
            for each in (place, zero_point):
                name = f"{stem}:{each}"
                graph.node.extend(_raised(node.input[each], name))
                node.input[each] = name
        graph.node.append(node)


def _raised(name: str, result: str) -> Iterator[onnx.NodeProto]:
    """Nodes that add 128 to signed bytes, or to 0 for no `name`."""
    yield _constant(f"{result}:128", np.int32(128))
    if name:
        yield helper.make_node("Cast", [name], [f"{result}:wide"], to=TensorProto.INT32)
        yield helper.make_node("Add", [f"{result}:wide", f"{result}:128"], [f"{result}:sum"])
    cast = f"{result}:sum" if name else f"{result}:128"
    yield helper.make_node("Cast", [cast], [result], to=TensorProto.UINT8)


def _constant(name: str, value: np.generic) -> onnx.NodeProto:
    tensor = numpy_helper.from_array(np.asarray(value))
    return helper.make_node("Constant", [], [name], value=tensor)
