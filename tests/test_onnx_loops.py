"""Loops of a known number of iterations become the nodes that they repeat."""

from typing import Any

import numpy as np
import onnx
import pytest

import collage_dsl as collage
from collage_dsl.frontend.errors import FrontendError
from tests.test_fuzz_findings import agrees, f32, parsed

Array = np.ndarray[Any, Any]

BODY = """body = b (int64 i, bool on, float[2,3] s) => (bool still, float[2,3] t, float[2,3] u) {
  still = Identity (on)
  f = Cast <to = 1> (i)
  a = Mul (s, w)
  t = Add (a, f)
  u = Exp (t)
}"""


def loop(count: Array, body: str = BODY, opset: int = 17) -> onnx.ModelProto:
    text = f"""(float[2,3] x) => (float[2,3] y, float[4,2,3] every) {{
      y, every = Loop (n, "", x) <{body}>
    }}"""
    return parsed(text, opset, n=count, w=f32(3))


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op for node in collage.from_onnx(model).nodes if node.is_call]


@pytest.mark.parametrize("opset", [11, 12, 17, 21])
def test_a_loop_is_what_it_repeats(opset: int) -> None:
    model = loop(np.array(4), opset=opset)

    found = operators(model)

    assert found.count("exp") == 4
    assert "concat" in found
    assert not any(op.startswith("onnx.") for op in found)
    agrees(model, {"x": f32(2, 3)})


def test_a_condition_that_is_a_constant_goes_on() -> None:
    body = BODY.replace("Identity (on)", "Constant <value = bool {1}> ()")

    assert "onnx.Loop" not in operators(loop(np.array(4), body))


@pytest.mark.parametrize(
    ("count", "body"),
    [
        (100, BODY),
        (4, BODY.replace("still = Identity (on)", "z = Sub (i, i) still = Equal (i, z)")),
        (4, BODY.replace("Identity (on)", "Constant <value = bool {0}> ()")),
    ],
    ids=["many", "computed", "once"],
)
def test_other_loops_stay(count: int, body: str) -> None:
    assert operators(loop(np.array(count), body)) == ["onnx.Loop"]


@pytest.mark.parametrize("name", ["k", "keep"])
def test_a_condition_that_the_body_takes_from_before_is_not_known(name: str) -> None:
    model = parsed(
        f"""(float[2] x, bool go) => (float[2] y) {{
          k, y = Loop (n, "", go, x) <
            body = b (int64 i, bool on, bool {name}, float[2] s) => (bool z, bool l, float[2] t) {{
            z = Identity ({name})
            l = Not ({name})
            t = Add (s, s)
          }}>
        }}""",
        17,
        n=np.array(4),
    )

    agrees(model, {"x": f32(2), "go": np.array(True)})


def test_a_loop_takes_what_is_around_it_and_inside_another() -> None:
    inner = """Loop (three, "", s) <
      body = c (int64 j, bool on2, float[2,3] q) => (bool on3, float[2,3] r) {
      on3 = Identity (on2)
      r = Add (q, x)
    }>"""
    model = parsed(
        f"""(float[2,3] x) => (float[2,3] y) {{
          y = Loop (two, "", x) <
            body = b (int64 i, bool on, float[2,3] s) => (bool still, float[2,3] t) {{
            still = Identity (on)
            t = {inner}
          }}>
        }}""",
        17,
        two=np.array(2),
        three=np.array(3),
    )

    assert operators(model) == ["add"] * 6
    agrees(model, {"x": f32(2, 3)})


def test_the_nodes_of_a_loop_come_from_it() -> None:
    model = loop(np.array(4))
    model.graph.node[0].name = "turns"

    graph = collage.from_onnx(model)

    assert {origin.name for origins in graph.onnx.values() for origin in origins} == {"turns"}


def test_the_values_of_a_body_have_names_of_their_own() -> None:
    model = parsed(
        """(float[2] x) => (float[2] y, float[2] "y.0.t") {
          "y.0.t" = Neg (x)
          y = Loop (n, "", x) <body = b (int64 i, bool go, float[2] s) => (bool still, float[2] t) {
            still = Identity (go)
            number = Exp (s)
            on = Neg (number)
            result0 = Add (on, s)
            row = Cos (result0)
            t = Add (row, number)
          }>
        }""",
        17,
        n=np.array(2),
    )

    assert "onnx.Loop" not in operators(model)
    agrees(model, {"x": f32(2)})


def test_a_condition_that_waits_for_itself_ends() -> None:
    model = loop(np.array(4))
    body = model.graph.node[0].attribute[0].g
    body.node[0].input[0] = "still"

    with pytest.raises(FrontendError):
        collage.from_onnx(model)


def test_the_number_of_an_iteration_is_a_vector_where_the_body_says_so() -> None:
    """As tf2onnx writes it."""
    model = parsed(
        """(float[3,4] x) => (float[3,1,4] y) {
          y = Loop (n, go) <
            body = b (int64[1] i, bool on) => (bool still, float[1,4] t) {
            still = Identity (on)
            next = Add (i, one)
            t = Slice (x, i, next, zero)
          }>
        }""",
        17,
        n=np.array(3),
        go=np.array(True),
        one=np.array([1]),
        zero=np.array([0]),
    )

    assert "onnx.Loop" not in operators(model)
    agrees(model, {"x": f32(3, 4)})
