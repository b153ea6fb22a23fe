"""Scales and zero points of quantized models are checked by conditions, without host code."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

import collage_dsl as collage
from collage_dsl.graph import Graph
from collage_dsl.rules import DFPattern
from collage_dsl.rules.explain import explain
from collage_dsl.rules.matcher import matches

SPEC = """collage 1;
pattern quantized(
  x, sx: const, zx: const, w: const, sw: const, zw: const, sy: const, zy: const,
) {
  m = matmul(dequantize(x, sx, zx), dequantize(w, sw, zw));
  y = quantize(m, sy, zy) [out_dtype == u8];
  where dtype(x) == u8 and dtype(w) == i8;
  where value(sx) > 0 and all(sw > 0) and value(sy) > 0 else "scales are positive";
  where all(zw == 0) else "weights have no zero point";
  where value(zx) in 0..127 and value(zy) in [0, 128];
  where all(w in -127..127);
  where all(sx * sw ~= 0.05) else "the library has one scale";
  yield y;
}
target lib on llvm { rules dfpattern(quantized); }
"""


def pattern() -> DFPattern:
    rule = collage.load(text=SPEC)["lib"].rule
    assert isinstance(rule, DFPattern)
    return rule


Arrays = dict[str, Any]
Maker = Callable[[Arrays], Graph]


def values(**changed: Any) -> Arrays:
    usual = {
        "sx": np.float32(0.5),
        "zx": np.uint8(3),
        "w": np.arange(-16, 16, dtype="int8").reshape(8, 4),
        "sw": np.full(4, 0.1, "float32"),
        "zw": np.zeros(4, "int8"),
        "sy": np.float32(0.125),
        "zy": np.uint8(128),
    }
    return {name: np.asarray(each) for name, each in {**usual, **changed}.items()}


def of_onnx(given: Arrays) -> Graph:
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "sx", "zx"], ["a"]),
        helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["b"], axis=1),
        helper.make_node("MatMul", ["a", "b"], ["m"]),
        helper.make_node("QuantizeLinear", ["m", "sy", "zy"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [2, 8])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, [2, 4])],
        [numpy_helper.from_array(each, name) for name, each in given.items()],
    )
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    onnx.checker.check_model(model)
    return collage.from_onnx(model)


def of_relax(given: Arrays) -> Graph:
    c = {name: relax.const(each) for name, each in given.items()}
    x = relax.Var("x", relax.TensorType([2, 8], "uint8"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            a = builder.emit(relax.op.dequantize(x, c["sx"], c["zx"], axis=1))
            b = builder.emit(relax.op.dequantize(c["w"], c["sw"], c["zw"], axis=1))
            m = builder.emit(relax.op.matmul(a, b))
            y = relax.op.quantize(m, c["sy"], c["zy"], axis=1, out_dtype="uint8")
            y = builder.emit_output(builder.normalize(y), name_hint="y")
        builder.emit_func_output(y)
    return collage.from_relax(builder.get(), "main")


MODELS = pytest.mark.parametrize("graph_of", [of_onnx, of_relax])


@MODELS
def test_a_product_of_quantized_values_is_matched(graph_of: Maker) -> None:
    graph = graph_of(values())

    (found,) = matches(pattern().pattern, graph, graph.index("y"))

    assert found.inside.bit_count() == 4
    assert found.constants.bit_count() == 7


@MODELS
@pytest.mark.parametrize(
    ("changed", "reason", "fact"),
    [
        ({"sw": np.float32([0.1, 0.1, -0.1, 0.1])}, "scales are positive", "min(sw) is -0.1"),
        ({"zw": np.int8([0, 0, 0, 1])}, "weights have no zero point", "max(zw) is 1"),
        ({"zx": np.uint8(200)}, "value(zx) in 0..127", "value(zx) is 200"),
        ({"w": np.full((8, 4), -128, "int8")}, "all(w in -127..127)", "min(w) is -128"),
        ({"sw": np.full(4, 0.1002, "float32")}, "the library has one scale", "max(sw) is 0.10"),
    ],
)
def test_a_wrong_constant_is_refused_with_its_value(
    graph_of: Maker, changed: Arrays, reason: str, fact: str
) -> None:
    assert_refused(graph_of(values(**changed)), reason, fact)


def test_a_scale_that_is_no_number_is_refused_with_its_value() -> None:
    """In a Relax model; the import refuses an ONNX model with such a scale."""
    graph = of_relax(values(sx=np.float32(np.nan)))

    assert_refused(graph, "scales are positive: unknown", "(NaN)")


def assert_refused(graph: Graph, reason: str, fact: str) -> None:
    explained = explain(pattern().pattern, graph, graph.index("y"))

    assert explained.matches == ()
    assert reason in explained.attempt.because
    said = [str(each) for each in getattr(explained.reason, "facts", ())]
    assert any(fact in each for each in said), said
