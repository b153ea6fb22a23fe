"""Models of versions of ONNX that onnxruntime does not know yet are compiled as others are."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import collage_dsl as collage
from collage_dsl.frontend.errors import FrontendError
from collage_dsl.frontend.onnx_newest import NEWEST_IR, NEWEST_OPSET, lowered
from collage_dsl.frontend.reference import reference_session
from collage_dsl.graph import CandidateKernel
from collage_dsl.offline import onnxruntime
from tests.cases import slow
from tests.commands import said as run_command

NEWEST = '<ir_version: 14, opset_import: ["": 28]> g '
TARGETS = ("native", "onnxruntime")


SLOW = {"an operator that is as it was", "a new operator"}
"""Of which others say no less."""


def price(kernel: CandidateKernel) -> float:
    return 1e-6


SAME = {
    "an operator that is as it was": "(float[2,8] x) => (float[2,8] y) { y = Relu(x) }",
    "one that takes more types": "(float[2,8] x) => (int32[2,8] y) { y = Cast <to = 6> (x) }",
    "one with a new attribute": (
        "(float[1,2,4,4] x) => (float[1,8,2,2] y) "
        '{ y = SpaceToDepth <blocksize = 2, mode = "DCR"> (x) }'
    ),
    "a new operator": "(float[2,8] x) => (float[2,8] y) { y = SwiGLU <alpha = 1.5> (x, x) }",
    "a new operator with defaults": "(float[2,8] x) => (float[2,8] y) { y = SwiGLU(x, x) }",
    "an operator that is not replaced": "(float[2,8] x) => (float[2,8] y) { y = Swish(x) }",
    "a function that depends on types": (
        "(float[2,3,5] x) => (float[2,3,5] y, float[2,3,2] z) "
        "{ w = Constant <value = float[3,1,3] {1, 2, 3, 4, 5, 6, 7, 8, 9}> () "
        "y, z = CausalConvWithState(x, w) }"
    ),
    "a branch": (
        "(float[2,8] x) => (float[2,8] y) { c = Constant <value = bool {1}> () "
        "y = If (c) <then_branch = t () => (float[2,8] a) { a = SwiGLU(x, x) }, "
        "else_branch = e () => (float[2,8] b) { b = Celu(x) }> }"
    ),
}


def model_of(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(NEWEST + text)


def input_of(model: onnx.ModelProto) -> np.ndarray:
    dims = model.graph.input[0].type.tensor_type.shape.dim
    rng = np.random.default_rng(0)
    return rng.standard_normal([dim.dim_value for dim in dims], np.float32) * 2


@pytest.mark.parametrize("name", [slow(name) if name in SLOW else name for name in SAME])
def test_what_is_computed_is_what_the_newest_version_says(name: str) -> None:
    model = model_of(SAME[name])
    x = input_of(model)

    found = collage.compile(model, targets=TARGETS, cost=price, race_seconds=0.01).run({"x": x})

    expected = ReferenceEvaluator(model).run(None, {"x": x})
    for ours, theirs in zip(found.values(), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_function_of_a_model_may_call_a_new_operator() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 14, opset_import: ["": 28, "own": 1]> '
        "g (float[2,8] x) => (float[2,8] y) { y = own.gated(x) } "
        '<domain: "own", opset_import: ["": 28]> gated (a) => (b) { b = SwiGLU(a, a) }'
    )
    x = input_of(model)

    found = collage.compile(model, targets=["native"], cost=price, race_seconds=0.01).run({"x": x})

    np.testing.assert_allclose(found["y"], x * x / (1 + np.exp(-x)), rtol=1e-5, atol=1e-6)


def test_a_model_as_onnx_writes_it_now_is_compiled_and_run_by_the_commands(tmp_path: Path) -> None:
    """With weights in a file of their own, and nothing said of versions."""
    rng = np.random.default_rng(1)
    weights = onnx.numpy_helper.from_array(rng.standard_normal((8, 64), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        "main",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4, 8])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4, 64])],
        [weights],
    )
    path, out, x = tmp_path / "model.onnx", tmp_path / "out", tmp_path / "x.npz"
    made = helper.make_model(graph)
    onnx.save(made, path, save_as_external_data=True, location="weights", size_threshold=0)
    np.savez(x, x=rng.standard_normal((4, 8), np.float32))

    compiled = run_command("compile", path, "-t", "onnxruntime", "-t", "native", "-o", out)
    assert compiled.code == 0, compiled.err
    done = run_command("run", out, "--inputs", x, "--outputs", tmp_path / "y.npz")
    assert done.code == 0, done.err

    found = np.load(tmp_path / "y.npz")["y"]
    expected = np.maximum(np.load(x)["x"] @ onnx.numpy_helper.to_array(weights), 0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_the_standard_operators_may_have_the_long_name_of_their_domain() -> None:
    model = model_of(SAME["a new operator with defaults"])
    model.opset_import[0].domain = model.graph.node[0].domain = "ai.onnx"
    x = input_of(model)

    found = collage.compile(model, targets=["native"], cost=price, race_seconds=0.01).run({"x": x})

    np.testing.assert_allclose(found["y"], x * x / (1 + np.exp(-x)), rtol=1e-5, atol=1e-6)


def test_the_given_model_is_not_changed() -> None:
    model = model_of(SAME["a new operator with defaults"])
    before = model.SerializeToString()

    lowered(model)

    assert model.SerializeToString() == before


@pytest.mark.parametrize(("ir", "opset", "takes"), [(0, 0, True), (1, 0, False), (0, 1, False)])
def test_these_are_the_newest_versions_that_onnxruntime_knows(
    ir: int, opset: int, *, takes: bool
) -> None:
    versions = f'<ir_version: {NEWEST_IR + ir}, opset_import: ["": {NEWEST_OPSET + opset}]> g '
    model = onnx.parser.parse_model(versions + "(float[2] x) => (float[2] y) { y = Relu(x) }")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4

    if takes:
        onnxruntime.InferenceSession(model.SerializeToString(), options)
    else:
        with pytest.raises(Exception, match="support"):
            onnxruntime.InferenceSession(model.SerializeToString(), options)


def test_a_new_operator_that_onnx_cannot_replace_is_named() -> None:
    text = (
        "(float[1,5,16] q, float[1,5,16] k, float[1,5,16] v, float[1,5,2] d) "
        "=> (float[1,5,16] y, float[1,2,8,8] s) { y, s = LinearAttention "
        '<q_num_heads = 2, kv_num_heads = 2, update_rule = "gated"> (q, k, v, , d) }'
    )

    with pytest.raises(FrontendError) as raised:
        collage.from_onnx(model_of(text))

    assert str(raised.value) == (
        "onnxruntime does not know `LinearAttention`, and ONNX cannot replace it by the operators "
        "that define it: export the model without it"
    )


def test_no_places_in_the_code_of_onnxruntime_are_said() -> None:
    model = model_of(SAME["an operator that is as it was"])
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 99))

    with pytest.raises(FrontendError) as raised:
        reference_session(model)

    assert str(raised.value).startswith("onnxruntime refuses the model: ONNX Runtime only")
