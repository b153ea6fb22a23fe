"""
ONNX models on bfloat16 and float64, of which onnxruntime lacks kernels, are compiled as others are.
"""

from collections.abc import Callable
from math import erf

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

import collage_dsl as collage
from collage_dsl.engine.steps import UncoveredError
from collage_dsl.frontend.reference import reference_session
from collage_dsl.graph.arrays import Array
from collage_dsl.in_float32 import without_bfloat16, without_float64

BF16 = ml_dtypes.bfloat16
HEADER = '<ir_version: 9, opset_import: ["": 21, "com.microsoft": 1, "own": 1]> g '

DENSE = "(bfloat16[4,16] x) => (bfloat16[4,8] y) { p = MatMul(x, w) s = Add(p, b) y = Relu(s) }"
NORMALIZED = (
    "(bfloat16[2,16] x) => (bfloat16[2,16] y) "
    "{ s = Mul(x, x) m = ReduceMean <keepdims = 1> (s, last) r = Sqrt(m) y = Div(x, r) }"
)
SWITCHED = (
    "(bfloat16[2,16] x, bool c) => (bfloat16[2,16] y) { y = If (c) "
    "<then_branch = t () => (bfloat16[2,16] a) { a = Exp(x) }, "
    "else_branch = e () => (bfloat16[2,16] b) { b = Neg(x) }> }"
)
OF_MICROSOFT = (
    "(bfloat16[2,16] x) => (bfloat16[2,16] y) { q = com.microsoft.QuickGelu(x) y = Add(q, q) }"
)
QUANTIZED = (
    "(bfloat16[4,16] x) => (bfloat16[4,16] y) "
    "{ q = QuantizeLinear(x, scale, zero) y = DequantizeLinear(q, scale, zero) }"
)
# The text of ONNX gives the bits of a bfloat16: those of 2.5 are 16416.
TYPED = (
    "(bfloat16[6,6] x) => (bfloat16[6,6] y, float[6,6] wide) { s = Shape(x) "
    "c = ConstantOfShape <value = bfloat16[1] {16416}> (s) e = EyeLike <dtype = 16> (x) "
    "p = Mul(e, c) y = Add(x, p) wide = Cast <to = 1> (y) }"
)
RESIZED = (
    '{ n = Reshape(x, images) r = Resize <mode = "nearest"> (n, , scales) y = Reshape(r, back) }'
)
CALLED = (
    "(bfloat16[2,16] x) => (bfloat16[2,16] y) { y = own.Swish(x) } "
    '<domain: "own", opset_import: ["": 20]> Swish (a) => (b) { s = Sigmoid(a) b = Mul(a, s) }'
)


CHOSEN = np.arange(8) % 3 == 0


def weights() -> dict[str, Array]:
    generator = np.random.default_rng(0)
    return {
        "w": generator.normal(size=(16, 8)).astype(BF16),
        "b": generator.normal(size=8).astype(BF16),
        "last": np.array([-1]),
        "scale": np.array(0.05, BF16),
        "zero": np.array(3, np.int8),
        "nothing": np.zeros(1, BF16),
        "g": np.ones(4, BF16),
        "sizes": np.array([3, 2, 8]),
        "pads": np.array([0, 1, 0, 3]),
        "chosen": CHOSEN,
        "images": np.array([1, 1, 2, 8]),
        "scales": np.array([1, 1, 2, 8], np.float32),
        "back": np.array([4, 64]),
    }


def model_of(text: str) -> onnx.ModelProto:
    model = onnx.parser.parse_model(HEADER + text)
    read = {name for node in model.graph.node for name in node.input}
    known = {name: array for name, array in weights().items() if name in read}
    model.graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in known.items())
    return model


def random(*shape: int) -> Array:
    return np.random.default_rng(1).normal(size=shape).astype(BF16)


def run(model: onnx.ModelProto, inputs: dict[str, Array], *targets: str) -> dict[str, Array]:
    compiled = collage.compile(model, targets, cost=lambda _: 1e-6, race_seconds=0.01)
    assert not compiled.report.verification.unchecked
    return compiled.run(inputs)


def float32(array: Array) -> Array:
    return array.astype(np.float32)


@pytest.mark.parametrize("target", ["native", "onnxruntime"])
def test_each_value_is_rounded(target: str) -> None:
    x, given = random(4, 16), weights()

    found = run(model_of(DENSE), {"x": x}, target)["y"]

    product = (float32(x) @ float32(given["w"])).astype(BF16)
    wanted = np.maximum(float32(product) + float32(given["b"]), 0).astype(BF16)
    assert found.dtype == BF16
    np.testing.assert_allclose(float32(found), float32(wanted), rtol=2**-7, atol=2**-6)


@pytest.mark.parametrize("target", ["native", "onnxruntime"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (NORMALIZED, lambda x: x / np.sqrt((x * x).mean(axis=1, keepdims=True))),
        (TYPED, lambda x: x + 2.5 * np.eye(6)),
        (CALLED, lambda x: x / (1 + np.exp(-x))),
    ],
)
def test_models(text: str, expected: Callable[[Array], Array], target: str) -> None:
    model = model_of(text)
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    x = random(*shape)

    found = run(model, {"x": x}, target)

    for array in found.values():
        np.testing.assert_allclose(float32(array), expected(float32(x)), rtol=2**-5, atol=2**-6)


@pytest.mark.parametrize("is_true", [True, False])
def test_a_branch(is_true: bool) -> None:
    x = random(2, 16)

    found = run(model_of(SWITCHED), {"x": x, "c": np.array(is_true)}, "onnxruntime")["y"]

    wanted = np.exp(float32(x)) if is_true else -float32(x)
    np.testing.assert_array_equal(found, wanted.astype(BF16))


def test_an_operator_that_onnx_does_not_know() -> None:
    x = random(2, 16)

    found = run(model_of(OF_MICROSOFT), {"x": x}, "native", "onnxruntime")["y"]

    wanted = 2 * float32(x) / (1 + np.exp(-1.702 * float32(x)))
    np.testing.assert_allclose(float32(found), wanted, rtol=2**-6, atol=2**-8)


def test_quantization() -> None:
    x = random(4, 16)
    scale = float(weights()["scale"])

    found = run(model_of(QUANTIZED), {"x": x}, "onnxruntime")["y"]

    levels = np.clip(np.rint(float32(x) / scale) + 3, -128, 127) - 3
    np.testing.assert_array_equal(found, (levels * scale).astype(BF16))


def test_infinities_and_nan() -> None:
    model = model_of("(bfloat16[4] x) => (bfloat16[4] y) { y = Mul(x, nothing) }")

    found = run(model, {"x": np.array([np.inf, np.nan, -1, 2], BF16)}, "native")["y"]

    np.testing.assert_array_equal(float32(found), [np.nan, np.nan, 0, 0])


def test_other_models_stay_as_they_are() -> None:
    model = model_of("(float[4] x) => (float[4] y) { y = Relu(x) }")
    wide = model_of("(double[4] x) => (double[4] y) { y = Relu(x) }")

    assert without_bfloat16(model) is model
    assert without_float64(model) is model
    assert without_float64(wide) is wide  # There is a kernel.


def test_a_cast_to_the_type_of_another_value_is_exact() -> None:
    model = model_of("(double[1] x, int64[1] z) => (y) { y = CastLike(x, z) }")
    number = np.array([2.0**24 + 1])

    session = reference_session(model, approximates=True)

    (found,) = session.run(None, {"x": number, "z": np.zeros(1, np.int64)})
    assert found == 2**24 + 1


def test_values_of_sequences() -> None:
    model = model_of("(seq(double[4]) q, int64 i) => (y) { a = SequenceAt(q, i) y = Erf(a) }")

    assert [node.op_type for node in without_float64(model).graph.node].count("Cast") == 2


def test_names_are_not_taken_twice() -> None:
    model = model_of("(bfloat16[4] x) => (bfloat16[4] z) { y = Relu(x) z = Neg(y) }")
    unread = numpy_helper.from_array(np.zeros(1, BF16), "z.float32")
    model.graph.initializer.append(unread)
    for node in model.graph.node:
        node.input[:] = [name.replace("y", "x.float32") for name in node.input]
        node.output[:] = [name.replace("y", "x.float32") for name in node.output]

    rewritten = without_bfloat16(model)

    onnx.checker.check_model(rewritten)
    names = [name for node in rewritten.graph.node for name in node.output]
    assert len(set(names)) == len(names)


def test_a_node_in_a_graph_reads_a_value_from_outside() -> None:
    rewritten = without_bfloat16(model_of(SWITCHED))

    onnx.checker.check_model(rewritten, full_check=True)
    branch = rewritten.graph.node[0].attribute[0].g
    assert [node.op_type for node in branch.node] == ["Cast", "Exp", "Cast"]
    assert branch.output[0].type.tensor_type.elem_type == TensorProto.BFLOAT16


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{ y = Expand(x, sizes) }", lambda x: np.broadcast_to(x, (3, 2, 8))),
        ("{ r = Relu(x) y = Expand(r, sizes) }", lambda x: np.broadcast_to(x.clip(0), (3, 2, 8))),
        (
            "{ y = Pad(x, pads, scale) }",
            lambda x: np.pad(x, ((0, 0), (1, 3)), constant_values=0.05),
        ),
        ("{ y = Where(chosen, x, scale) }", lambda x: np.where(CHOSEN, x, 0.05)),
        (RESIZED, lambda x: x.repeat(8, 1).repeat(2, 0)),
    ],
)
def test_numbers_that_are_moved(text: str, expected: Callable[[Array], Array]) -> None:
    x = random(2, 1 if "Expand" in text else 8)
    width = x.shape[1]
    model = model_of(f"(bfloat16[2,{width}] x) => (y) {text}")

    found = run(model, {"x": x}, "native")["y"]

    np.testing.assert_array_equal(found, expected(float32(x)).astype(BF16))


@pytest.mark.parametrize("target", ["native", "onnxruntime"])
def test_a_result_whose_type_is_not_declared(target: str) -> None:
    x = random(2, 4, 3)
    model = model_of(
        "(bfloat16[2,4,3] x) => (y) { y = GroupNormalization <num_groups=2> (x, g, g) }"
    )

    found = run(model, {"x": x}, target)["y"]

    grouped = float32(x).reshape(2, 2, 6)
    centered = grouped - grouped.mean(axis=2, keepdims=True)
    wanted = centered / np.sqrt((centered**2).mean(axis=2, keepdims=True) + 1e-5) + 1
    assert found.dtype == BF16
    np.testing.assert_allclose(float32(found), wanted.reshape(2, 4, 3), rtol=2**-6, atol=2**-6)


def test_inputs_that_onnxruntime_refuses_are_left_out_of_the_comparison() -> None:
    model = model_of(
        "(bfloat16[2,4,3,8] x, bfloat16[50,4] c, bfloat16[50,4] s, int64[2,3] p) => (y) "
        "{ y = RotaryEmbedding(x, c, s, p) }"
    )
    model.opset_import[0].version = 23

    compiled = collage.compile(model, ["onnxruntime"], cost=lambda _: 1e-6, race_seconds=0.01)

    assert "large" not in compiled.report.verification.draws


# ---- float64 ----


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{ y = Erf(x) }", lambda x: np.vectorize(erf)(x)),
        ("{ t = Tan(x) y = Add(t, x) }", lambda x: np.tan(x) + x),
        ("{ y = GlobalAveragePool(x) }", lambda x: x.mean(axis=(2, 3), keepdims=True)),
        (
            "{ y = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (x) }",
            lambda x: x.reshape(1, 2, 2, 2, 2, 2).mean(axis=(3, 5)),
        ),
        ("{ y = Conv(x, x) }", lambda x: (x * x).sum(axis=(1, 2, 3), keepdims=True)),
    ],
)
def test_native_kernels_of_float64(text: str, expected: Callable[[Array], Array]) -> None:
    x = np.random.default_rng(2).normal(size=(1, 2, 4, 4))

    found = run(model_of(f"(double[1,2,4,4] x) => (y) {text}"), {"x": x}, "native")["y"]

    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected(x), rtol=1e-10)


def test_onnxruntime_is_not_chosen_for_less_precise_kernels() -> None:
    with pytest.raises(UncoveredError, match="no kernel of Erf for tensor\\(double\\)"):
        run(model_of("(double[4] x) => (y) { y = Erf(x) }"), {"x": np.ones(4)}, "onnxruntime")
