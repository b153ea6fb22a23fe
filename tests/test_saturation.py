"""Products of bytes in onnxruntime are those of the ONNX reference, on every processor."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import collage_dsl as collage
from collage_dsl.backends.engines import INEXACT
from collage_dsl.backends.onnxruntime import OnnxRuntime
from collage_dsl.exact_products import exact, saturation
from collage_dsl.frontend.reference import reference_session
from collage_dsl.graph import CandidateKernel, SubGraph, Toolchain
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.lower import build
from collage_dsl.realization.partition import realize
from collage_dsl.realization.signature import Signature
from tests.cases import covering

Array = np.ndarray[Any, Any]

TYPES = {"u": np.uint8, "s": np.int8}
SHAPES = {"Conv": ((1, 8, 12, 12), (16, 8, 3, 3)), "MatMul": ((8, 64), (64, 32))}
OPERATORS = {
    "MatMulInteger": ("a", "b", "a_zero"),
    "ConvInteger": ("a", "b", "a_zero"),
    "QLinearMatMul": ("a", "a_scale", "a_zero", "b", "b_scale", "b_zero", "y_scale", "y_zero"),
    "QLinearConv": ("a", "a_scale", "a_zero", "b", "b_scale", "b_zero", "y_scale", "y_zero"),
}
CASES = [
    (op, factors)
    for op in OPERATORS
    for factors in ("uu", "us", "su", "ss")
    if not (op.startswith("QLinear") and factors == "su")  # onnxruntime has none
]


def values_of(op: str, factors: str) -> dict[str, Array]:
    generator = np.random.default_rng(0)
    shapes = SHAPES["Conv" if "Conv" in op else "MatMul"]
    found: dict[str, Array] = {}
    for name, letter, shape, zero in zip("ab", factors, shapes, (3, -2), strict=True):
        info = np.iinfo(TYPES[letter])
        found[name] = generator.integers(info.min, info.max, shape, info.dtype, endpoint=True)
        found[f"{name}_zero"] = np.array(zero if letter == "s" else 3, info.dtype)
    scales = {"a_scale": 0.02, "b_scale": 0.01, "y_scale": 0.5 if "Conv" in op else 2}
    found |= {name: np.array(scale, np.float32) for name, scale in scales.items()}
    return found | {"y_zero": np.array(1, TYPES[factors[0]])}


def model_of(op: str, values: Mapping[str, Array], inputs: str) -> onnx.ModelProto:
    """One node, of which those of `a` and `b` are inputs that are in `inputs`."""
    names = OPERATORS[op]
    result = TensorProto.INT32 if "Integer" in op else values["y_zero"].dtype
    made = result if isinstance(result, int) else helper.np_dtype_to_tensor_dtype(result)
    given = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(values[name].dtype), values[name].shape
        )
        for name in inputs
    ]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], "product")],
        "products",
        given,
        [helper.make_tensor_value_info("y", made, None)],
        [numpy_helper.from_array(values[name], name) for name in names if name not in inputs],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.fixture(params=["here", "everywhere"])
def processor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """This processor; and one that needs other products, whether this one does or not."""
    if request.param == "everywhere":
        monkeypatch.setattr(saturation, "saturates", lambda: True)


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize(("op", "factors", "inputs"), covering(CASES, ["a", "ab"]))
def test_products_are_exact(op: str, factors: str, inputs: str, tmp_path: Path) -> None:
    values = values_of(op, factors)
    model = model_of(op, values, inputs)
    feeds = {name: values[name] for name in inputs}
    right = ReferenceEvaluator(model).run(None, feeds)[0]
    path = tmp_path / "model.onnx"
    onnx.save(model, path)

    for source in (model, path):
        np.testing.assert_array_equal(reference_session(source).run(None, feeds)[0], right)
    np.testing.assert_array_equal(computed(model, feeds), right)


def computed(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> Array:
    """The result of `model` as one kernel of onnxruntime."""
    graph = collage.from_onnx(model)
    toolchain = Toolchain("onnxruntime", compiler="onnxruntime")
    kernel = CandidateKernel(graph, SubGraph(graph.calls), toolchain)
    module = realize(graph, [kernel], lambda _: OnnxRuntime())
    return ModelExecutable(build(module), Signature.of(graph, cores=1)).run(feeds)["y"]


def dequantized(op: str, factors: str, inputs: str, end: str) -> tuple[onnx.ModelProto, Any]:
    """
    A product of two `DequantizeLinear`, which onnxruntime may make one of bytes, and its inputs.
    Zero points of channels are not written. At the `end` may be a `QuantizeLinear`, and another
    product of the signed bytes that it makes.
    """
    values = values_of(op, factors)
    values["b_scale"] = np.full(16 if op == "QLinearConv" else 32, 0.01, np.float32)
    values["c"] = np.repeat(values["b"], 2, 1) if op == "QLinearConv" else values["b"][:32]
    product, axis = ("Conv", 0) if op == "QLinearConv" else ("MatMul", 1)
    text = f"""<ir_version: 9, opset_import: ["": 19]> g () => (y) {{
        wide_a = DequantizeLinear (a, a_scale, a_zero)
        wide_b = DequantizeLinear <axis = {axis}> (b, b_scale)
        p = {product} (wide_a, wide_b)
        """
    text += {
        "": "y = Identity (p) }",
        "rounded": "y = QuantizeLinear (p, y_scale, y_zero) }",
        "again": f"""q = QuantizeLinear (p, y_scale, y_zero)
        wide_q = DequantizeLinear (q, y_scale, y_zero)
        wide_c = DequantizeLinear (c, a_scale)
        r = {product} (wide_q, wide_c)
        y = QuantizeLinear (r, c_scale, y_zero) }}""",
    }[end]
    values["c_scale"] = np.array(60, np.float32)
    model = onnx.parser.parse_model(text)
    for name in inputs:
        dtype = helper.np_dtype_to_tensor_dtype(values[name].dtype)
        model.graph.input.add().CopyFrom(
            helper.make_tensor_value_info(name, dtype, values[name].shape)
        )
    used = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(values[name], name) for name in used & {*values} - {*inputs}
    )
    model = onnx.shape_inference.infer_shapes(model)
    return model, {name: values[name] for name in inputs}


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize(
    ("inputs", "end"),
    [(inputs, end) for end in ("", "rounded", "again") for inputs in ("a", "ab")]
    + [("abc", "again")],
)
@pytest.mark.parametrize("factors", ["us", "ss"])
@pytest.mark.parametrize("op", ["QLinearMatMul", "QLinearConv"])
def test_products_of_dequantized_bytes_are_exact(
    op: str, factors: str, inputs: str, end: str
) -> None:
    model, feeds = dequantized(op, factors, inputs, end)
    right = ReferenceEvaluator(model).run(None, feeds)[0].astype(np.float64)

    found = computed(model, feeds).astype(np.float64)

    if end:  # next to half of a step, floats are rounded to either side
        steps = np.abs(found - right)
        assert steps.max() <= 1
        assert np.mean(steps > 0) < 0.01
    else:
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5 * np.abs(right).max())


OF_MICROSOFT = {
    "MatMulIntegerToFloat": "(a, w, s, s, a0, w0)",
    "QGemm": "(a, s, a0, w, s, w0)",
    "DynamicQuantizeMatMul": "(x, w, s, w0)",
    "DynamicQuantizeLSTM": "<hidden_size = 8> (x3, w3, r3, , , , , , s1, w1, s1, w1)",
    "QAttention": "<num_heads = 4> (a3, w, bias, s, s, , a0, w0)",
}


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize("op", OF_MICROSOFT)
def test_signed_weights_do_as_the_same_unsigned_ones(op: str) -> None:
    generator = np.random.default_rng(0)
    values = {
        "a": generator.integers(128, 256, (4, 32), np.uint8),
        "x": generator.uniform(0.5, 1, (4, 32)).astype(np.float32),
        "w": generator.integers(64, 128, (32, 96), np.int8),
        "bias": np.zeros(96, np.float32),
        "r3": generator.integers(64, 128, (1, 8, 32), np.int8),
        "a0": np.array(100, np.uint8),
        "w0": np.array(90, np.int8),
        "s": np.array(0.01, np.float32),
    }
    values["a3"] = values["a"][None]
    values["x3"], values["w3"] = values["x"][:, None], values["w"][None, :, :32]
    values["w1"], values["s1"] = values["w0"][None], values["s"][None]
    signed = {"w", "w3", "r3", "w0", "w1"}
    text = f"""<ir_version: 9, opset_import: ["": 17, "com.microsoft": 1]> g () => (float[] y) {{
        y = com.microsoft.{op} {OF_MICROSOFT[op]} }}"""

    def result(values: Mapping[str, Array]) -> Array:
        model = onnx.parser.parse_model(text)
        used = {name for name in model.graph.node[0].input if name}
        model.graph.initializer.extend(
            numpy_helper.from_array(values[name], name) for name in sorted(used)
        )
        found: Array = reference_session(model).run(None, {})[0]
        return found

    unsigned = {name: (values[name].astype(np.int16) + 128).astype(np.uint8) for name in signed}
    np.testing.assert_array_equal(result(values), result(values | unsigned))


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize("is_true", [True, False])
def test_products_in_branches_and_other_nodes_stay_whole(*, is_true: bool) -> None:
    values = values_of("MatMulInteger", "us")
    model = model_of("MatMulInteger", values, "a")
    product = model.graph.node[0]
    bodies = {
        f"{name}_branch": helper.make_graph(
            nodes, name, [], [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
        )
        for name, nodes, output in (
            ("then", [product, helper.make_node("Cast", ["y"], ["wide"], to=1)], "wide"),
            ("else", [helper.make_node("Cast", ["a"], ["plain"], to=1)], "plain"),
        )
    }
    del model.graph.node[:], model.graph.output[:]
    model.graph.node.append(helper.make_node("If", ["which"], ["out"], **bodies))
    model.graph.input.append(helper.make_tensor_value_info("which", TensorProto.BOOL, []))
    model.graph.output.append(helper.make_tensor_value_info("out", TensorProto.FLOAT, None))
    feeds = {"a": values["a"], "which": np.array(is_true)}

    found = reference_session(model).run(None, feeds)[0]

    np.testing.assert_array_equal(found, ReferenceEvaluator(model).run(None, feeds)[0])


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize("factors", ["uu", "ss"])
def test_models_without_such_products_stay_as_they_are(factors: str) -> None:
    product = model_of("MatMulInteger", values_of("MatMulInteger", factors), "a")
    floats, _ = dequantized("QLinearConv", factors, "ab", "rounded")

    assert exact(product) is product
    assert exact(floats) is floats


def test_an_engine_asks_for_other_products_for_every_operator_that_has_any() -> None:
    for op in (*saturation.FACTORS, *saturation.SECOND_FACTORS, "DequantizeLinear"):
        assert op.encode().startswith(INEXACT)


def weights_of_bits() -> Mapping[str, onnx.ModelProto]:
    """Products with weights of four bits, as one node and as two that onnxruntime joins."""
    generator = np.random.default_rng(0)
    text = """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
    g (float[2,64] x) => (float[2,24] y) {{ {} }}"""
    one = onnx.parser.parse_model(
        text.format(
            "y = com.microsoft.MatMulNBits "
            "<K = 64, N = 24, bits = 4, block_size = 32, accuracy_level = 4> (x, w, s)"
        )
    )
    two = onnx.parser.parse_model(
        text.format("d = DequantizeLinear <block_size = 32, axis = 0> (w, s)\n y = MatMul (x, d)")
    )
    scales = generator.uniform(0.1, 1, 48).astype(np.float32)
    of_one = {"w": generator.integers(0, 256, (24, 2, 16), np.uint8), "s": scales}
    weight = generator.integers(-8, 8, (64, 24)).astype(ml_dtypes.int4)
    of_two = {"w": weight, "s": scales.reshape(2, 24)}
    for model, constants in ((one, of_one), (two, of_two)):
        model.graph.initializer.extend(
            numpy_helper.from_array(array, name) for name, array in constants.items()
        )
    return {"one node": one, "two nodes": two}


@pytest.mark.parametrize("name", ["one node", "two nodes"])
def test_products_with_weights_of_few_bits_round_nothing_to_bytes(name: str) -> None:
    """At accuracy level 4, which the optimisations of onnxruntime take if nobody says another."""
    model = weights_of_bits()[name]

    compiled = collage.compile(model, ["onnxruntime"], cost=[lambda kernel: 1e-6], race_seconds=0.1)

    assert compiled.report is not None
