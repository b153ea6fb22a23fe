"""Models that end the process of onnxruntime for some inputs do not end ours."""

from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx.parser import parse_model
from tvm import relax

import collage_dsl as collage
from collage_dsl.backends.engines import EngineError
from collage_dsl.crashes import without_crashes
from collage_dsl.frontend.reference import REFUSALS, reference_session
from collage_dsl.frontend.to_relax import to_relax
from collage_dsl.realization.signature import InputError

Array = np.ndarray[Any, Any]

HEAD = '<ir_version: 10, opset_import: ["" : 23, "ai.onnx.ml" : 3, "com.microsoft" : 1]> g '

SCAN = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[b, n, 3] x, float[b, 3] start) => (float[b, 3] last, float[b, m, 3] sums)
<int64[1] four = {4}, int64[1] end = {1000000}, int64[1] axis = {1}>
{
    late = Slice(x, four, end, axis)
    last, sums = Scan<num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
        body = step (float[b, 3] before, float[b, 3] now)
            => (float[b, 3] after, float[b, 3] given)
            { after = Add(before, now) given = Identity(after) }>(start, late)
}
"""
"""onnxruntime divides by the length of the sequence, which is 0 for an `n` of 4 or less."""


def test_a_model_is_compiled_whose_sequence_is_empty_for_small_inputs() -> None:
    model = parse_model(SCAN)
    random = np.random.default_rng(0)
    inputs = {
        "x": random.normal(size=(2, 9, 3)).astype(np.float32),
        "start": random.normal(size=(2, 3)).astype(np.float32),
    }

    made = collage.compile(model, ["native", "onnxruntime"], cost=lambda _: 1e-6, race_seconds=0.01)

    found = made.run(inputs)
    last, sums = reference_session(model).run(None, inputs)
    np.testing.assert_allclose(found["last"], last, rtol=1e-5)
    np.testing.assert_allclose(found["sums"], sums, rtol=1e-5)


def f32(*shape: int) -> Array:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


GATES = """(float[s, b, 4] x, float[1, {0}, 4] w, float[1, {0}, 3] r) => (float[d, e, f, g] y)
    {{ y = {1} <hidden_size = 3> (x, w, r) }}"""
WITHOUT_ELEMENTS = {
    "Attention": (
        "(float[b, h, s, 4] x) => (float[d, e, f, g] y) { y = Attention (x, x, x) }",
        {"x": f32(1, 0, 3, 4)},
    ),
    "Conv": (
        "(float[a, b, c, d] x, float[e, f, g, h] w) => (float[i, j, k, l] y) { y = Conv (x, w) }",
        {"x": f32(1, 3, 8, 8), "w": f32(4, 3, 0, 3)},
    ),
    "FeatureVectorizer": (
        """(float[n, 2] x) => (float[m, 4] y)
           { y = ai.onnx.ml.FeatureVectorizer <inputdimensions = [2, 2]> (x, x) }""",
        {"x": f32(0, 2)},
    ),
    "GRU": (GATES.format(9, "GRU"), {"x": f32(0, 2, 4), "w": f32(1, 9, 4), "r": f32(1, 9, 3)}),
    "LSTM": (GATES.format(12, "LSTM"), {"x": f32(2, 0, 4), "w": f32(1, 12, 4), "r": f32(1, 12, 3)}),
    "QAttention": (
        """(uint8[a, b, 8] x, uint8[8, 24] w, float[24] z, float s) => (float[d, e, f] y)
           { y = com.microsoft.QAttention <num_heads = 2> (x, w, z, s, s) }""",
        {
            "x": np.ones((0, 5, 8), np.uint8),
            "w": np.ones((8, 24), np.uint8),
            "z": f32(24),
            "s": np.array(0.1, np.float32),
        },
    ),
    "QuantizeLinear": (
        """(float[a, b] x, float[a, c] s) => (int8[d, e] y)
           { y = QuantizeLinear <axis = 1, block_size = 2, output_dtype = 3> (x, s) }""",
        {"x": f32(3, 0), "s": f32(3, 0)},
    ),
    "STFT": (
        """(float[1, 16, 1] x, float[w] window) => (float[a, b, c, d] y)
           <int64 step = {2}> { y = STFT (x, step, window) }""",
        {"x": f32(1, 16, 1), "window": f32(0)},
    ),
    "Scan": (SCAN.split("g ", 1)[1], {"x": f32(2, 3, 3), "start": f32(2, 3)}),
}
"""Nodes that onnxruntime runs on tensors with elements only, each with operands that end it."""


@pytest.mark.parametrize("op", WITHOUT_ELEMENTS)
def test_a_node_is_not_run_without_elements(op: str) -> None:
    text, inputs = WITHOUT_ELEMENTS[op]
    model = parse_model(HEAD + text)

    with pytest.raises(REFUSALS, match=f"{op} `.*`, which needs elements"):
        reference_session(model).run(None, inputs)


def test_a_convolution_of_no_outputs_is_run() -> None:
    model = parse_model(HEAD + WITHOUT_ELEMENTS["Conv"][0])

    (y,) = reference_session(model).run(None, {"x": f32(1, 3, 8, 8), "w": f32(0, 3, 3, 3)})
    assert y.shape == (1, 0, 6, 6)


def test_a_convolution_with_quantized_constants_stays_as_it_is() -> None:
    model = parse_model(
        HEAD
        + """(float[a, 1, c, d] x) => (float[i, j, k, l] y)
        <uint8[1, 1, 1, 1] w = {3}, float s = {0.5}, uint8 z = {0}>
        { floats = DequantizeLinear (w, s, z) y = Conv (x, floats) }"""
    )

    assert without_crashes(model) is model


CUT = """(float[1, 3, 8, 8] x, float[4, 3, 5, 5] w, int64[2] k) => (float[a, b, c, d] y)
    <int64[2] zero = {0, 0}, int64[2] axes = {2, 3}>
    { part = Slice (w, zero, k, axes) y = Conv (x, part) }"""


def test_a_compiled_convolution_says_that_it_needs_elements() -> None:
    model = parse_model(HEAD + CUT)
    inputs = {"x": f32(1, 3, 8, 8), "w": f32(4, 3, 5, 5), "k": np.array([2, 2])}
    made = collage.compile(
        model, ["native", "onnxruntime"], cost=lambda _: 1e-6, race_seconds=0.01, inputs=inputs
    )

    assert made.run(inputs)["y"].shape == (1, 4, 7, 7)
    with pytest.raises(InputError, match=r"Conv `.*`, which needs elements"):
        made.run({**inputs, "k": np.array([0, 2])})


LATE = """(float[s, b, 4] x, float[1, {0}, 4] w, float[1, {0}, 3] r) => (float[d, e, f, g] y)
    <int64[1] two = {{2}}, int64[1] end = {{1000000}}, int64[1] axis = {{1}}> {{
    late = Slice (x, two, end, axis)
    y = {1} <hidden_size = 3> (late, w, r)
}}"""
"""A part of the batch, which is empty for two or fewer."""


def late(op: str, gates: int, batch: int) -> tuple[onnx.ModelProto, dict[str, Array]]:
    inputs = {"x": f32(2, batch, 4), "w": f32(1, 3 * gates, 4), "r": f32(1, 3 * gates, 3)}
    return parse_model(HEAD + LATE.format(3 * gates, op)), inputs


@pytest.mark.parametrize(("op", "gates"), [("GRU", 3), ("LSTM", 4)])
def test_a_compiled_model_says_that_it_needs_elements(op: str, gates: int) -> None:
    model, inputs = late(op, gates, batch=5)
    made = collage.compile(
        model, ["native", "onnxruntime"], cost=lambda _: 1e-6, race_seconds=0.01, inputs=inputs
    )
    (expected,) = reference_session(model).run(None, inputs)

    np.testing.assert_allclose(made.run(inputs)["y"], expected, rtol=1e-5)
    with pytest.raises(InputError, match=f"{op} `.*`, which needs elements"):
        made.run(late(op, gates, batch=2)[1])


def test_a_module_that_was_not_partitioned_does_too() -> None:
    model, inputs = late("GRU", 3, batch=2)
    module = to_relax(collage.from_onnx(model))
    executable = tvm.compile(module, tvm.target.Target({"kind": "llvm"}))
    run = relax.VirtualMachine(executable, tvm.cpu())["main"]

    with pytest.raises(EngineError, match="which needs elements"):
        run(*(tvm.runtime.tensor(array) for array in inputs.values()))


DIVISIONS = """({0}[n] a, {0}[n] b) => ({0}[n] quotient, {0}[n] rest)
    {{ quotient = Div (a, b) rest = Mod (a, b) }}"""
IN_A_LOOP = """(int64 times, int64[n] a, int64[n] b) => (int64[n] quotient)
    <bool go = {1}> {
    quotient = Loop <body = step (int64 i, bool on, int64[n] c) => (bool further, int64[n] d)
        { further = Identity (on) e = Neg (b) f = Neg (e) d = Div (c, f) }> (times, go, a)
}"""


@pytest.mark.parametrize("targets", [["native"], ["onnxruntime"], ["native", "onnxruntime"]])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_the_least_integer_divided_by_minus_one_is_itself(dtype: str, targets: list[str]) -> None:
    model = parse_model(HEAD + DIVISIONS.format(dtype))
    least = np.iinfo(dtype).min
    inputs = {"a": np.array([least, 7, least], dtype), "b": np.array([-1, -1, 2], dtype)}
    made = collage.compile(model, targets, cost=lambda _: 1e-6, race_seconds=0.01)

    found = made.run(inputs)

    np.testing.assert_array_equal(found["quotient"], [least, -7, least // 2])
    np.testing.assert_array_equal(found["rest"], [0, 0, 0])
    for name, value in zip(found, reference_session(model).run(None, inputs), strict=True):
        np.testing.assert_array_equal(found[name], value)


def test_a_division_inside_a_loop_does_not_end_the_process_either() -> None:
    model = parse_model(HEAD + IN_A_LOOP)
    least = np.iinfo(np.int64).min
    inputs = {"times": np.array(1), "a": np.array([least, 6]), "b": np.array([-1, 4])}
    made = collage.compile(
        model, ["onnxruntime"], cost=lambda _: 1e-6, race_seconds=0.01, inputs=inputs
    )

    np.testing.assert_array_equal(made.run(inputs)["quotient"], [least, 1])


@pytest.mark.parametrize(
    "text",
    [
        "(float[n] a, float[n] b) => (float[n] y) { y = Div (a, b) }",
        "(int64[n] a) => (int64[n] y) <int64 two = {2}> { y = Div (a, two) }",
        GATES.format(9, "GRU").replace("s, b", "5, 2"),
    ],
    ids=["floats", "constant", "elements"],
)
def test_models_that_cannot_crash_stay_as_they_are(text: str) -> None:
    model: onnx.ModelProto = parse_model(HEAD + text)

    assert without_crashes(model) is model


def test_a_division_inside_a_node_that_is_replaced_too_does_not_either() -> None:
    body = "step (int32[k] e) => (int32[k] q) { q = Div(e, d) }"
    model = parse_model(
        f"""{HEAD}(int32[a,b] x, int32[1] d) => (int32[c,k] y) {{
          y = Scan<num_scan_inputs = 1, scan_input_axes = [1], body = {body}>(x)
        }}"""
    )
    least = np.iinfo(np.int32).min
    inputs = {"x": np.array([[least, 4]], np.int32), "d": np.array([-1], np.int32)}

    (found,) = reference_session(model).run(None, inputs)

    assert found.tolist() == [[least], [-4]]


@pytest.mark.parametrize("names", [["y", "", "z"], ["", "y", "z"], ["y", "z", ""]])
def test_the_outputs_of_a_split_need_no_names(names: list[str]) -> None:
    model = parse_model(
        HEAD + "(float[6] x) => (float[2] y, float[2] z) { y, z = Split <num_outputs = 3> (x) }"
    )
    model.graph.node[0].output[:] = names
    x = np.arange(6, dtype=np.float32)
    parts = dict(zip(names, np.split(x, 3), strict=True))
    made = collage.compile(model, ["native"], cost=lambda _: 1e-6, race_seconds=0.01)

    found = made.run({"x": x})

    assert {name: found[name].tolist() for name in ("y", "z")} == {
        name: parts[name].tolist() for name in ("y", "z")
    }
