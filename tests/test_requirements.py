"""Inputs of wrong sizes are refused before a kernel reads beside them, with the reason."""

from typing import Any

import numpy as np
import pytest
from onnx import parser

import collage_dsl as collage
from collage_dsl.graph.requirements import Requirement, known_sizes, least_sizes, requirements_of
from collage_dsl.graph.sizes import plain_names
from collage_dsl.realization.draws import sizes_of
from collage_dsl.realization.signature import ExecutableError, Signature
from tests.test_fuzz_findings import compiled, f32, parsed

Array = np.ndarray[Any, Any]


def indices(*shape: int) -> Array:
    return np.zeros(shape, np.int64)


CONSTANTS: dict[str, Array] = {
    "kernel": f32(2, 3, 2, 2),
    "flat": np.array([-1, 4]),
    "most": np.array([3]),
    "around": np.array([0, 3, 0, 0]),
}


def constants(text: str) -> dict[str, Array]:
    return {name: array for name, array in CONSTANTS.items() if name in text}


LEARNED = {
    "a product": (
        "(float[2,n] x, float[m,4] z) => (y) { y = MatMul (x, z) }",
        ["[2, m]", "[m, 4]"],
    ),
    "a convolution": (
        "(float[1,n,4,4] x, float[2,m,2,2] z) => (y) { y = Conv (x, z) }",
        ["[1, m, 4, 4]", "[2, m, 2, 2]"],
    ),
    "a constant": (
        "(float[1,n,4,4] x, float[1,2,3,3] z) => (y) { c = Conv (x, kernel) y = Add (c, z) }",
        ["[1, 3, 4, 4]", "[1, 2, 3, 3]"],
    ),
}


@pytest.mark.parametrize("case", LEARNED)
def test_a_size_that_must_be_is_part_of_the_signature(case: str) -> None:
    text, shapes = LEARNED[case]
    signature = Signature.of(collage.from_onnx(parsed(text, 17, **constants(text))))

    assert [str(value).removeprefix("float32") for value in signature.inputs] == shapes
    assert not signature.requirements


REFUSED: dict[str, tuple[str, dict[str, Array], dict[str, Array], str]] = {
    "reshape": (
        "(float[n,6] x) => (y) { y = Reshape (x, flat) }",
        {"x": f32(2, 6)},
        {"x": f32(3, 6)},
        r"`n` of input `x` is 3, but `y` \(reshape\) needs n \* 6 == ",
    ),
    "a window": (
        "(float[1,1,n,n] x) => (y) { y = MaxPool <kernel_shape = [4, 4]> (x) }",
        {"x": f32(1, 1, 5, 5)},
        {"x": f32(1, 1, 2, 2)},
        "needs n - 3 >= 1",
    ),
    "a window and as large steps": (
        "(float[1,1,n,4] x) => (y) { y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x) }",
        {"x": f32(1, 1, 2, 4)},
        {"x": f32(1, 1, 1, 4)},
        "needs n // 2 >= 1",
    ),
    "reflected padding": (
        '(float[2,n] x) => (y) { y = Pad <mode = "reflect"> (x, around) }',
        {"x": f32(2, 4)},
        {"x": f32(2, 3)},
        "needs n >= 4",
    ),
    "the largest": (
        "(float[2,n] x) => (y, i) { y, i = TopK (x, most) }",
        {"x": f32(2, 3)},
        {"x": f32(2, 2)},
        "needs n >= 3",
    ),
    "halves": (
        "(float[1,1,n,4] x) => (y) { y = SpaceToDepth <blocksize = 2> (x) }",
        {"x": f32(1, 1, 6, 4)},
        {"x": f32(1, 1, 5, 4)},
        "`n` of input `x` is 5",
    ),
    "elements": (
        "(float[n,3] x, int64[m,3] i) => (y) { y = GatherElements <axis = 1> (x, i) }",
        {"x": f32(3, 3), "i": indices(2, 3)},
        {"x": f32(2, 3), "i": indices(3, 3)},
        "`m` of input `i` is 3, `n` of input `x` is 2, but .* needs n >= m",
    ),
    "a slice of the last": (
        """(float[n] x, float[m] z) => (y) {
            s = Shape (x) e = Shape (z) b = Sub (e, s) y = Slice (z, b, e)
        }""",
        {"x": f32(2), "z": f32(3)},
        {"x": f32(3), "z": f32(2)},
        "needs m - n >= 0",
    ),
    "one batch": (
        "(float[n,1,4,4] x, float[m,2,2,2] z) => (y) { y = GridSample (x, z) }",
        {"x": f32(2, 1, 4, 4), "z": f32(2, 2, 2, 2)},
        {"x": f32(1, 1, 4, 4), "z": f32(2, 2, 2, 2)},
        "`m` is 1 in input `x`: its dimension 0 cannot be 2",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_size_is_refused_with_the_reason(case: str) -> None:
    text, right, wrong, message = REFUSED[case]
    executable = compiled(parsed(text, 17, **constants(text)))

    executable.run(right)
    with pytest.raises(ExecutableError, match=message):
        executable.run(wrong)


def test_the_reason_names_the_onnx_node() -> None:
    made = parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 17]> g (float[1,1,n,n] x) => (y) {
          [pooled] y = MaxPool <kernel_shape = [4, 4]> (x)
        }"""
    )

    (requirement,) = requirements_of(collage.from_onnx(made))

    assert requirement.node == "the MaxPool node `pooled`"


def test_requirements_are_saved() -> None:
    signature = Signature.of(collage.from_onnx(parsed(REFUSED["a window"][0], 17)))

    assert signature.requirements
    assert Signature.from_json(signature.to_json()) == signature


def test_a_model_is_measured_at_sizes_that_it_can_have() -> None:
    graph = collage.from_onnx(
        parsed(
            """(float[1,1,h,w] x) => (y) {
              a = SpaceToDepth <blocksize = 2> (x)
              b = SpaceToDepth <blocksize = 4> (a)
              y = MaxPool <kernel_shape = [2, 2]> (b)
            }""",
            17,
        )
    )

    assert [set(sizes_of(graph, draw).values()) for draw in range(3)] == [{16}, {16}, {16}]


def test_what_always_holds_is_not_required() -> None:
    text = """(float[b,n,12] x) => (y) {
      dims = Shape (x)
      zero = Constant <value_ints = [0]> ()
      one = Constant <value_ints = [1]> ()
      heads = Constant <value_ints = [3, 4]> ()
      first = Gather (dims, zero)
      second = Gather (dims, one)
      wanted = Concat <axis = 0> (first, second, heads)
      r = Reshape (x, wanted)
      back = Reshape (r, dims)
      y = Add (back, x)
    }"""

    assert not requirements_of(collage.from_onnx(parsed(text, 17)))


def equal(left: int | str, right: int | str) -> Requirement:
    return Requirement(left, right, True, "`y` (reshape)")


def test_sizes_follow_from_requirements() -> None:
    assert known_sizes([equal("n * 4", 12)]) == {"n": 3}
    assert known_sizes([equal("n", "m"), equal("n", "k")]) == {"n": "m"}
    assert known_sizes([equal("n", "m"), equal("m", 3)]) == {"n": "m", "m": 3}
    assert known_sizes([equal("m", 3), equal("n", "m")]) == {"m": 3}
    assert known_sizes([equal("n * n", 9), equal("n // 2", 4), equal("n * 4", 10)]) == {}
    assert known_sizes([equal("min(n, 6)", 6), equal("max(n, 2)", 2)]) == {}
    assert known_sizes([Requirement("n", 3, False, "`y` (topk)")]) == {}


def test_least_sizes_follow_from_requirements() -> None:
    def least(left: str, right: int) -> Requirement:
        return Requirement(left, right, False, "`y` (nn.conv1d)")

    assert least_sizes([least("n - 2", 1), least("(n - 3) // 2", 1)]) == {"n": 5}
    assert least_sizes([least("n", 1), least("n + m", 4), least("min(n, 6)", 7)]) == {}
    assert least_sizes([least("n % 4", 1), Requirement("n", 3, True, "`y` (matmul)")]) == {}


@pytest.mark.parametrize(
    ("name", "plain"),
    [("seq-len", "seq_len"), ("n+1", "n_1"), ("1n", "_1n"), ("a b", "a_b"), ("max", "max_2")],
)
def test_a_name_that_is_no_identifier_is_no_formula(name: str, plain: str) -> None:
    model = parsed(REFUSED["a window"][0], 17)
    for axis in (2, 3):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    executable = compiled(model)

    assert str(executable.signature.inputs[0]) == f"float32[1, 1, {plain}, {plain}]"
    executable.run({"x": f32(1, 1, 5, 5)})
    with pytest.raises(ExecutableError, match=f"`{plain}` of input `x` is 2"):
        executable.run({"x": f32(1, 1, 2, 2)})


def test_a_formula_of_dimensions_with_names_is_one() -> None:
    assert plain_names(["n", "past", "past + n", "n + other", "n_other", 3]) == {
        "n + other": "n___other"
    }


def test_a_dimension_named_like_a_keyword_gets_another_name() -> None:
    """No formula can have it: `class * 2`. Python reads `ﬁ` as `fi`."""
    assert plain_names(["class", "class_2", "lambda-", "ﬁ"]) == {
        "class": "class_3",
        "lambda-": "lambda_",
        "ﬁ": "fi",
    }
