"""
Products of bytes, without saturation.

Where a processor has no instruction for it (x86 without VNNI), onnxruntime adds two products of an
unsigned and a signed byte in 16 bits, and sums beyond 32767 become 32767. Nothing says so, and the
sum may be half of the right one. Products of two unsigned bytes are exact, and a signed byte with a
zero point is the same number as an unsigned one, 128 higher, with a zero point 128 higher.

The optimisations of onnxruntime make such products of `DequantizeLinear` too. They make signed
bytes between a `QuantizeLinear` and a `DequantizeLinear` unsigned.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache
from itertools import chain

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from collage_dsl.offline import onnxruntime
from collage_dsl.onnx_nodes import graphs_of, nodes_within

FACTORS = {
    "ConvInteger": ((0, 2), (1, 3)),
    "MatMulInteger": ((0, 2), (1, 3)),
    "QLinearConv": ((0, 2), (3, 5)),
    "QLinearMatMul": ((0, 2), (3, 5)),
    "MatMulIntegerToFloat": ((0, 4), (1, 5)),
    "QGemm": ((0, 2), (3, 5)),
    "QAttention": ((0, 6), (1, 7)),
}
"""The places of the two factors of each operator, each with that of its zero point."""

SECOND_FACTORS = {"DynamicQuantizeMatMul": ((1, 3),), "DynamicQuantizeLSTM": ((1, 9), (2, 11))}
"""The same of operators that make unsigned bytes of the other factor themselves."""

_SIGNED, _UNSIGNED = TensorProto.INT8, TensorProto.UINT8


def without_saturation(model: onnx.ModelProto) -> onnx.ModelProto:
    """
    `model` for onnxruntime here: products of an unsigned and a signed byte have two unsigned. A
    copy, or `model` itself if there are none.
    """
    named = {node.op_type for node in nodes_within(model.graph.node)}
    if named.isdisjoint({*FACTORS, *SECOND_FACTORS, "DequantizeLinear"}) or not saturates():
        return model
    result = onnx.ModelProto()
    result.CopyFrom(model)
    inferred = onnx.shape_inference.infer_shapes(model).graph
    return result if _replace(result.graph, inferred, {}) else model


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


def _types(graph: onnx.GraphProto) -> Mapping[str, int]:
    """The element type of each tensor of `graph` whose type is known."""
    values = chain(graph.input, graph.value_info, graph.output)
    known = {each.name: each.type.tensor_type.elem_type for each in values}
    return known | {each.name: each.data_type for each in graph.initializer}


def _replace(graph: onnx.GraphProto, inferred: onnx.GraphProto, outer: Mapping[str, int]) -> bool:
    """Change the products of `graph`, of which `inferred` has the types; say if there are any."""
    types = {**outer, **_types(inferred)}
    nodes = [deepcopy(node) for node in graph.node]
    signed = set(_dequantized(graph, types))
    del graph.node[:]
    is_changed = False
    for node, same in zip(nodes, inferred.node, strict=True):
        for body, inferred_body in zip(graphs_of(node), graphs_of(same), strict=True):
            is_changed |= _replace(body, inferred_body, types)
        places = [(0, 2)] if node.output[0] in signed else _signed_factors(node, types)
        for place, zero_point in places:
            is_changed = True
            node.input.extend([""] * (zero_point + 1 - len(node.input)))
            stem = f"{next(filter(None, node.output))}:unsigned"
            like = node.input[1] if node.op_type == "DequantizeLinear" else ""
            for each in (place, zero_point):
                name = f"{stem}:{each}"
                graph.node.extend(_raised(node.input[each], name, like))
                node.input[each] = name
        graph.node.append(node)
    return is_changed


def _signed_factors(node: onnx.NodeProto, types: Mapping[str, int]) -> list[tuple[int, int]]:
    """The places of factors, and of their zero points, that meet unsigned bytes and are signed."""
    second = SECOND_FACTORS.get(node.op_type, ())
    pairs = FACTORS.get(node.op_type, second)
    found = [pair for pair in pairs if types.get(node.input[pair[0]]) == _SIGNED]
    meets = second or any(types.get(node.input[place]) == _UNSIGNED for place, _ in pairs)
    return found if meets else []


def _dequantized(graph: onnx.GraphProto, types: Mapping[str, int]) -> Iterator[str]:
    """
    The outputs of the `DequantizeLinear` of signed bytes that may meet unsigned ones in a product:
    those that onnxruntime does not make unsigned itself, if it makes others so, or others are.
    """
    used = Counter(name for node in nodes_within(graph.node) for name in node.input)
    used.update(value.name for value in graph.output)
    quantized = {
        name
        for node in graph.node
        if node.op_type == "QuantizeLinear"
        for name in node.output
        if used[name] == 1
    }
    every = [node for node in graph.node if node.op_type == "DequantizeLinear"]
    if any(types.get(node.input[0]) == _UNSIGNED or node.input[0] in quantized for node in every):
        for node in every:
            if types.get(node.input[0]) == _SIGNED and node.input[0] not in quantized:
                yield node.output[0]


def _raised(name: str, result: str, like: str) -> Iterator[onnx.NodeProto]:
    """
    Nodes that add 128 to signed bytes; for no `name`, to zeros in the shape of `like`, or to one.
    """
    if not name and like:
        yield helper.make_node("Shape", [like], [f"{result}:shape"])
        value = numpy_helper.from_array(np.array([128], np.uint8))
        yield helper.make_node("ConstantOfShape", [f"{result}:shape"], [result], value=value)
    elif not name:
        yield _constant(result, np.uint8(128))
    else:
        yield _constant(f"{result}:128", np.int32(128))
        yield helper.make_node("Cast", [name], [f"{result}:wide"], to=TensorProto.INT32)
        yield helper.make_node("Add", [f"{result}:wide", f"{result}:128"], [f"{result}:sum"])
        yield helper.make_node("Cast", [f"{result}:sum"], [result], to=TensorProto.UINT8)


def _constant(name: str, value: np.generic) -> onnx.NodeProto:
    tensor = numpy_helper.from_array(np.asarray(value))
    return helper.make_node("Constant", [], [name], value=tensor)
