"""Operators on quantized numbers, as those on floats or int32 that give the same results."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import collage_dsl as collage
from collage_dsl.backends.onnx_writer.call import Unsupported
from collage_dsl.backends.onnx_writer.model import to_onnx
from tests.cases import covering
from tests.reference import run_onnx

Array = np.ndarray[Any, Any]

OPERANDS = {
    "x": "u8[2,6,9,9]",
    "i": "i8[2,6,9,9]",
    "y": "u8[2,6,9,9]",
    "m": "u8[3,7,16]",
    "n": "i8[3,7,16]",
    "a": "u8[7,16]",
}
"""What the cases compute with. The rest of what they name are constants."""


def constants(seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)

    def byte(dtype: str, *shape: int, spread: int = 6) -> Array:
        middle = 0 if dtype == "int8" else 128
        return (middle + rng.integers(-spread, spread, shape)).astype(dtype)

    def scale(*shape: int) -> Array:
        return rng.uniform(0.01, 0.03, shape).astype(np.float32)

    return {
        "s": scale(),
        "t": scale(),
        "o": np.float32(0.11) * np.ones((), np.float32),
        "wide": np.float32(0.9) * np.ones((), np.float32),
        "tiny": np.float32(1 / 256) * np.ones((), np.float32),
        "one_s": scale(1),
        "z": byte("uint8"),
        "v": byte("uint8"),
        "one_z": byte("uint8", 1),
        "e": byte("int8"),
        "f": byte("int8"),
        "none": np.zeros((), np.uint8),
        "w": byte("int8", 4, 6, 3, 3, spread=100),
        "wu": byte("uint8", 4, 6, 3, 3, spread=100),
        "wd": byte("int8", 6, 1, 3, 3, spread=100),
        "ws": scale(4),
        "wz": byte("int8", 4),
        "wds": scale(6),
        "wdz": np.zeros(6, np.int8),
        "bias": rng.integers(-9000, 9000, 4).astype(np.int32),
        "k": byte("int8", 16, 5, spread=100),
        "ks": scale(5),
        "kz": byte("int8", 5),
        "kt": byte("uint8", 5, 16, spread=100),
        "kb": rng.integers(-9000, 9000, 5).astype(np.int32),
        "several": byte("int8", 3, 16, 5, spread=100),
        "its": scale(16),
        "itz": byte("int8", 16),
        "is_x": rng.integers(0, 2, (2, 6, 9, 9)).astype(bool),
    }


M = "com.microsoft."
CASES: Sequence[tuple[str, str]] = [
    ("QLinearConv (x, s, z, w, t, e, wide, v)", "nn.conv2d"),
    ("QLinearConv <pads = [1,1,1,1]> (x, s, z, w, ws, wz, wide, v, bias)", "nn.conv2d"),
    ("QLinearConv <strides = [2,2], auto_pad = 'SAME_UPPER'> (x, one_s, one_z, wu, t, v, wide, z)",
     "nn.conv2d"),
    ("QLinearConv <group = 6, dilations = [2,2]> (x, s, z, wd, wds, wdz, o, v)", "nn.conv2d"),
    (f"{M}QLinearConv <pads = [1,1,1,1]> (i, s, e, w, ws, wz, wide, f)", "nn.conv2d"),
    ("QLinearMatMul (m, s, z, k, t, e, o, v)", "matmul"),
    ("QLinearMatMul (m, s, z, k, ks, kz, o, v)", "matmul"),
    ("QLinearMatMul (n, s, e, k, ks, kz, o, f)", "matmul"),
    (f"{M}QGemm (a, s, z, k, ks, kz, kb, o, v)", "matmul"),
    (f"{M}QGemm <transB = 1, alpha = 0.5> (a, s, z, kt, t, v, kb, o, v)", "matmul"),
    (f"{M}QGemm (a, s, z, k, t, e, kb)", "matmul"),
    (f"{M}QLinearAdd (x, s, z, y, t, v, o, v)", "add"),
    (f"{M}QLinearAdd (x, s, z, y, t, v, o)", "add"),
    (f"{M}QLinearMul (x, s, z, y, t, v, o, v)", "multiply"),
    (f"{M}QLinearAveragePool <kernel_shape = [3,3], strides = [2,2]> (x, s, z, t, v)",
     "nn.avg_pool2d"),
    (f"{M}QLinearAveragePool <kernel_shape = [3,3], pads = [1,1,1,1]> (x, s, z, t, v)",
     "nn.avg_pool2d"),
    (f"{M}QLinearGlobalAveragePool (x, s, z, t, v)", "mean"),
    (f"{M}QLinearConcat <axis = 1> (o, v, x, s, z, y, t, v)", "concat"),
    (f"{M}QLinearLeakyRelu <alpha = 0.2> (i, s, e, t, f)", "nn.leakyrelu"),
    (f"{M}QLinearSigmoid (x, s, z, tiny, none)", "sigmoid"),
    (f"{M}QLinearSoftmax <axis = -1, opset = 17> (m, s, z, tiny, none)", "nn.softmax"),
    ("ConvInteger (x, w)", "nn.conv2d"),
    ("ConvInteger <pads = [1,1,1,1], strides = [2,2]> (x, wu, z, v)", "nn.conv2d"),
    ("ConvInteger <auto_pad = 'SAME_UPPER'> (i, wu, f, v)", "nn.conv2d"),
    ("ConvInteger <group = 6, pads = [1,1,1,1]> (x, wd, one_z)", "nn.conv2d"),
    (f"{M}QLinearWhere (is_x, x, s, z, y, t, v, o, z)", "where"),
]  # fmt: skip
DTYPES = {"u8": ("uint8", np.uint8), "i8": ("int8", np.int8)}


def model(call: str, opset: int) -> onnx.ModelProto:
    call = call.replace("'", '"')
    used = set(call[call.rindex("(") + 1 : -1].replace(" ", "").split(","))
    declared = ", ".join(
        f"{DTYPES[kind[:2]][0]}{kind[2:]} {name}" for name, kind in OPERANDS.items() if name in used
    )
    text = f'<ir_version: 8, opset_import: ["": {opset}, "com.microsoft": 1]> g ({declared}) => '
    made = onnx.parser.parse_model(f"{text}(r) {{ r = {call} }}")
    held = {name: array for name, array in constants().items() if name in used}
    made.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in held.items())
    return made


def drawn(made: onnx.ModelProto) -> dict[str, Array]:
    rng = np.random.default_rng(1)
    return {
        each.name: rng.integers(*((-128, 128) if kind == "i8" else (0, 256)), shape).astype(
            DTYPES[kind][1]
        )
        for each in made.graph.input
        for kind in [OPERANDS[each.name][:2]]
        for shape in [[d.dim_value for d in each.type.tensor_type.shape.dim]]
    }


def assert_in_steps(ours: Array, theirs: Array) -> None:
    """The same but for a step where a result is next to the middle of two."""
    assert ours.dtype == theirs.dtype
    if ours.dtype == np.int32:
        np.testing.assert_array_equal(ours, theirs)
        return
    if ours.dtype == np.float32:
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
        return
    assert len(np.unique(theirs)) > 8  # not all at an end
    difference = np.abs(ours.astype(int) - theirs.astype(int))
    assert difference.max() <= 1
    assert (difference > 0).mean() < 0.01


@pytest.mark.parametrize(
    ("call", "op", "opset"), covering([*CASES][::2], [10, 17, 21], rest=[*CASES][1::2])
)
def test_an_operator_on_quantized_numbers_is_a_usual_one(call: str, op: str, opset: int) -> None:
    made = model(call, opset)
    graph = collage.from_onnx(made)
    ops = graph.operators(graph.calls)
    assert op in ops
    assert not [each for each in ops if "onnx." in each or "microsoft" in each]

    found = collage.compile(made, ["native"], cost=lambda _: 1e-5, race_seconds=0.01)
    inputs = drawn(made)
    [theirs] = run_onnx(made, inputs).values()
    assert_in_steps(found.run(inputs)["r"], theirs)


@pytest.mark.parametrize(
    "call",
    [
        f"{M}QLinearAveragePool <kernel_shape = [3,3], channels_last = 1> (x, s, z, t, v)",
        f"{M}QLinearSoftmax <axis = 1, opset = 12> (m, s, z, tiny, none)",
        f"{M}QLinearSoftmax <axis = -1, opset = 17> (m, s, z, o, none)",
    ],
)
def test_what_has_no_such_form_stays(call: str) -> None:
    graph = collage.from_onnx(model(call, 17))

    [op] = graph.operators(graph.calls)
    assert op.startswith(M)


def test_before_quantize_linear_nodes_stay() -> None:
    call = f"{M}QLinearWhere (is_x, x, s, z, y, t, v, o, z)"
    graph = collage.from_onnx(model(call, 7))

    assert graph.operators(graph.calls) == ("com.microsoft.QLinearWhere",)


@pytest.mark.parametrize(
    ("dtype", "zero", "opset", "stays"),
    [("uint8", 0, 13, True), ("uint8", 0, 12, False), ("int8", -128, 13, False)],
)
def test_a_softmax_of_one_element_is_that_of_onnxruntime(
    dtype: str, zero: int, opset: int, stays: bool
) -> None:
    """It gives 0 for an unsigned byte, and 1 for a signed one; rows of opset 12 are longer here."""
    made = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": {opset}, "com.microsoft": 1]>
        g ({dtype}[2,3,n] x) => ({dtype}[2,3,n] y)
        <float s = {{0.1}}, {dtype} z = {{3}}, float t = {{0.00390625}}, {dtype} o = {{{zero}}}> {{
          y = {M}QLinearSoftmax <axis = {1 if opset == 12 else 2}, opset = {opset}> (x, s, z, t, o)
        }}"""
    )
    graph = collage.from_onnx(made)
    assert (f"{M}QLinearSoftmax" in graph.operators(graph.calls)) == stays

    targets = ["native", "onnxruntime"]
    found = collage.compile(made, targets, cost=lambda _: 1e-5, race_seconds=0.01)
    inputs = {"x": np.arange(6, dtype=dtype).reshape(2, 3, 1)}
    np.testing.assert_array_equal(found.run(inputs)["y"], run_onnx(made, inputs)["y"])


def test_scales_that_do_not_fit_stay() -> None:
    """The optimizer of onnxruntime makes such products of factors with scales along axis 1."""
    graph = collage.from_onnx(model("QLinearMatMul (m, s, z, several, its, itz, o, v)", 17))

    assert graph.operators(graph.calls) == ("onnx.QLinearMatMul",)


@pytest.mark.parametrize(
    ("call", "operands"),  # a weight is moved by its zero point, if it fits into bytes then
    [
        ("MatMulInteger (m, k)", 2),
        ("MatMulInteger (m, k, z, kz)", 3),
        ("ConvInteger <strides = [2,2], pads = [1,1,1,1]> (x, w, z)", 3),
        ("ConvInteger <group = 6> (x, wd, z, f)", 3),
    ],
)
def test_onnxruntime_multiplies_bytes_too(call: str, operands: int) -> None:
    made = model(call, 17)
    graph = collage.from_onnx(made)
    written, _ = to_onnx(graph)

    [node] = written.graph.node
    assert node.op_type == call[: call.index(" ")]
    assert len(node.input) == operands
    inputs = drawn(made)
    found = collage.compile(made, ["onnxruntime"], cost=lambda _: 1e-5, race_seconds=0.01)
    [theirs] = run_onnx(made, inputs).values()
    np.testing.assert_array_equal(found.run(inputs)["r"], theirs)


def test_onnxruntime_has_no_other_convolution_of_integers() -> None:
    graph = collage.parse_graph(
        "x: i32[1, 4, 5, 5]; w: i32[4, 4, 3, 3]; y = nn.conv2d(x, w); return y;"
    )

    with pytest.raises(Unsupported, match="there is no Conv of int32"):
        to_onnx(graph)


@pytest.mark.parametrize("opset", [10, 11])
def test_a_product_without_an_addend_is_a_usual_one(opset: int) -> None:
    made = model(f"{M}QGemm (a, s, z, k, t, e)", opset)
    found = collage.compile(made, ["native"], cost=lambda _: 1e-5, race_seconds=0.01)
    inputs = drawn(made)

    [theirs] = run_onnx(made, inputs).values()
    assert_in_steps(found.run(inputs)["r"], theirs)


def test_signed_bytes_in_blocks_without_zero_points_run_in_onnxruntime() -> None:
    """Its optimisation that makes them unsigned gives all blocks one zero point, which fails."""
    made = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21]>
        g (float[n, 8] x) => (float[n, 3] y) <float[2, 3] s = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6}> {
          w = DequantizeLinear<axis = 0, block_size = 4>(q, s)
          y = MatMul(x, w)
        }"""
    )
    bytes_ = np.arange(-12, 12, dtype=np.int8).reshape(8, 3)
    made.graph.initializer.append(numpy_helper.from_array(bytes_, "q"))
    found = collage.compile(made, ["onnxruntime"], cost=lambda _: 1e-5, race_seconds=0.01)
    x = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)

    [right] = run_onnx(made, {"x": x}).values()
    np.testing.assert_allclose(found.run({"x": x})["y"], right, 1e-5, 1e-5)
