"""Functions of ONNX models that onnxruntime reads otherwise than ONNX says."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

import collage_dsl as collage
from collage_dsl.frontend.errors import FrontendError
from collage_dsl.frontend.reference import reference_session

Array = np.ndarray[Any, Any]


def model(body: str, shape: str, version: int, own: int, name: str = "loc.f") -> onnx.ModelProto:
    """A model of one set with a function of its `own`, which has one operand and one result."""
    domain, _, op = name.rpartition(".")
    return parse_model(
        f'<ir_version: 10, opset_import: ["" : {version}, "loc" : 1]> '
        f"g (float[{shape}] x) => (float[k, m, n] y) {{ y = {name} (x) }} "
        f'<domain: "{domain}", opset_import: ["" : {own}]> {op} (a) => (e) {{ {body} }}'
    )


def in_its_set(body: str, own: int, x: Array) -> Array:
    """What the body computes as a model of its own set."""
    text = f'<ir_version: 10, opset_import: ["" : {own}]> g (float[2,3,4] a) => (float[k, m, n] e)'
    made: onnx.ModelProto = parse_model(f"{text} {{ {body} }}")
    (found,) = reference_session(made).run(None, {"a": x})
    return np.asarray(found)


@pytest.mark.parametrize(
    ("body", "version", "own"),
    [
        ("e = Softmax (a)", 13, 11),
        ("e = Softmax (a)", 11, 13),
        ("e = ReduceMean <axes = [1]> (a)", 18, 17),
        ("e = Clip <max = 0.5> (a)", 13, 10),
        ("b = Unsqueeze <axes = [0]> (a) e = Squeeze <axes = [0]> (b)", 13, 11),
    ],
)
def test_a_function_means_what_it_means_in_its_own_set(body: str, version: int, own: int) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    made = model(body, "2, 3, 4", version, own)

    found = collage.compile(made, ["native"], cost=lambda _: 1e-6, race_seconds=0.01).run({"x": x})

    np.testing.assert_allclose(found["y"], in_its_set(body, own, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_a_function_named_as_an_operator_is_that_function(domain: str) -> None:
    made = model("e = Neg (a)", "2, 3, 4", 21, 21, name="Relu")
    made.functions[0].domain = domain
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)

    found = collage.compile(made, ["native"], cost=lambda _: 1e-6, race_seconds=0.01).run({"x": x})

    np.testing.assert_array_equal(found["y"], -x)


@pytest.mark.parametrize(
    ("op", "version", "own"),
    [
        ("GroupNormalization <num_groups = 1> (a, b, b)", 21, 18),
        ("GroupNormalization <num_groups = 1> (a, b, b)", 18, 21),
        ("Hardmax (a)", 13, 11),
        ("Resize (a, b)", 13, 10),
        ("Upsample (a, b)", 13, 9),
    ],
)
def test_what_the_converter_of_onnx_takes_for_the_same_is_refused(
    op: str, version: int, own: int
) -> None:
    b = "b = Constant <value = float[3] {1.0, 1.0, 1.0}> ()"
    made = model(f"{b} e = {op}", "2, 3, 4", version, own)

    with pytest.raises(FrontendError, match=rf"ONNX cannot convert `{op.split()[0]}`"):
        collage.from_onnx(made)


@pytest.mark.parametrize(
    ("inside", "right"),
    [
        ("t () => (float[2] k) <float[2] k = {1, 2}> { }", [1, 2]),
        ("t () => (float[2] k) { k = Neg (a) }", [-3, -4]),
    ],
)
def test_a_branch_in_a_function_may_give_a_constant(inside: str, right: list[float]) -> None:
    """ONNX's inliner gives such an output another name than the constant."""
    made = parse_model(
        f"""<ir_version: 10, opset_import: ["": 21, "my": 1]>
        g (float[2] x, bool c) => (float[2] y) {{ y = my.f (x, c) }}
        <domain: "my", opset_import: ["": 21]> f (a, c) => (o) {{
          o = If (c) <then_branch = {inside}, else_branch = e () => (float[2] m) {{ m = Exp (a) }}>
        }}"""
    )
    x = np.float32([3, 4])

    assert run(made, x=x, c=np.array(True)).tolist() == right


def test_a_loop_in_a_function_may_give_what_it_takes() -> None:
    """So do its condition `go`, and `v` twice."""
    made = parse_model(
        """<ir_version: 10, opset_import: ["": 21, "my": 1]>
        g (float[2] x, int64 n) => (float[2] y) { y = my.f (x, n) }
        <domain: "my", opset_import: ["": 21]> f (a, n) => (o) {
          true = Constant <value = bool {1}> ()
          p, q, r = Loop (n, true, a, a) <body = b (int64 i, bool go, float[2] u, float[2] v)
            => (bool go, float[2] w, float[2] w, float[2] v) { w = Add (u, v) }>
          s = ReduceSum <keepdims = 0> (r)
          t = Add (p, q)
          o = Add (s, t)
        }"""
    )
    x = np.float32([1, 2])

    # `w` is 2, 4, 8 times `x`, and `v` is 1, 2, 4 times.
    assert run(made, x=x, n=np.array(3)).tolist() == [16 + 21, 32 + 21]


def test_a_function_may_give_what_it_takes() -> None:
    made = parse_model(
        """<ir_version: 10, opset_import: ["": 21, "my": 1]> g (float[2] x) => (float[2] y) {
          v, w = my.f (x)
          y = Add (v, w)
        }
        <domain: "my", opset_import: ["": 21]> f (a) => (a, b) { b = Exp (a) }"""
    )
    x = np.float32([3, 4])

    np.testing.assert_allclose(run(made, x=x), x + np.exp(x), rtol=1e-6)


def run(made: onnx.ModelProto, **inputs: Array) -> Array:
    exe = collage.compile(made, ["onnxruntime"], cost=[lambda kernel: 1e-6], race_seconds=0.01)
    found: Array = exe.run(inputs)["y"]
    return found
