"""What tests in spec files ask and expect, as it is read."""

import pytest

from collage_dsl.graph import Toolchain
from collage_dsl.language.loading import load_contents
from collage_dsl.language.resolve.questions import (
    Candidates,
    Expectation,
    Kernels,
    Matches,
    Operator,
    Proposes,
    Question,
    TargetOf,
    WhyNot,
)
from collage_dsl.language.resolve.spec_tests import SpecTest
from collage_dsl.rules import DFPattern, FusionSpec, OpCallByKind
from collage_dsl.source import Source

TEXT = """collage 1;
pattern conv(x, w) {{ y = nn.conv2d(x, w); yield y; }}
target lib on llvm {{ compiler "lib"; rules dfpattern(conv); }}
target tvm on llvm {{ rules op_call_by_kind(); }}
test "t" {{
  {given}
  costs {{ lib {{ "nn.*": 1ms; }} tvm {{ "nn.conv2d": 2ms; "*": 10us; }} }}
  expect {expected};
}}
"""
GRAPH = """graph {
  x: f32[1, 3, 8, 8]; w: f32[4, 3, 3, 3]; c = nn.conv2d(x, w); y = nn.relu(c); return y;
}"""


def spec_test(expected: str, given: str = GRAPH) -> SpecTest:
    text = TEXT.format(given=given, expected=expected)
    (found,) = load_contents(Source("t.collage", text)).tests
    return found


MODEL = 'model "a.onnx";'


def read(expected: str, given: str = GRAPH) -> list[tuple[Question, Operator, int | str]]:
    found = spec_test(expected, given).expectations
    return [(each.question, each.operator, each.value) for each in found]


CONTENTS = load_contents(Source("t.collage", TEXT.format(given=GRAPH, expected="kernels() == 1")))
CONV, LIB = CONTENTS.patterns["conv"], CONTENTS.specs["lib"]


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("matches(conv)", Matches(CONV)),
        ("matches(conv, at: c)", Matches(CONV, "c")),
        ('matches(conv, nodes: 1, at: "c")', Matches(CONV, "c", 1)),
        ("candidates(lib)", Candidates(LIB)),
        ("candidates(conv)", Candidates(FusionSpec(Toolchain("test"), DFPattern(CONV)))),
        (
            "candidates(op_call_by_kind())",
            Candidates(FusionSpec(Toolchain("test"), OpCallByKind())),
        ),
        ("kernels()", Kernels()),
        ("kernels(lib)", Kernels("lib")),
    ],
)
def test_a_count_is_compared_or_more_than_none(text: str, question: Question) -> None:
    assert read(f"{text} == 1") == [(question, "==", 1)]
    assert read(text) == [(question, ">", 0)]
    assert read(f"not {text}", MODEL) == [(question, "<=", 0)]


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("proposes(lib, [c])", Proposes(LIB, frozenset({"c"}))),
        ('proposes(lib, ["c"])', Proposes(LIB, frozenset({"c"}))),
    ],
)
def test_what_is_proposed_or_not(text: str, question: Question) -> None:
    assert read(text) == [(question, ">", 0)]
    assert read(f"not {text}") == [(question, "<=", 0)]


@pytest.mark.parametrize(
    ("text", "question", "value"),
    [
        ('why_not(conv, at: y) {} "`y` is small"', WhyNot(CONV, "y"), "`y` is small"),
        ("target_of(c) {} lib", TargetOf("c"), "lib"),
        ('target_of("c") {} tvm', TargetOf("c"), "tvm"),
    ],
)
def test_texts_and_targets_are_equal_or_not(text: str, question: Question, value: str) -> None:
    assert read(text.format("==")) == [(question, "==", value)]
    assert read(text.format("!=")) == [(question, "!=", value)]
    assert read(f"not {text.format('==')}") == [(question, "!=", value)]


@pytest.mark.parametrize(
    ("operator", "opposite"),
    [("==", "!="), ("!=", "=="), ("<", ">="), (">=", "<"), (">", "<="), ("<=", ">")],
)
def test_the_opposite_is_expected_where_it_does_not_hold(
    operator: Operator, opposite: Operator
) -> None:
    assert read(f"kernels() {operator} 3", MODEL) == [(Kernels(), operator, 3)]
    assert read(f"not kernels() {operator} 3", MODEL) == [(Kernels(), opposite, 3)]


def test_parts_are_expectations_of_their_own() -> None:
    assert read("kernels() == 2 and not (kernels(lib) < 2 or matches(conv))") == [
        (Kernels(), "==", 2),
        (Kernels("lib"), ">=", 2),
        (Matches(CONV), "<=", 0),
    ]


def test_a_test_has_a_graph_or_a_model() -> None:
    with_graph, with_model = spec_test("kernels()"), spec_test("kernels()", 'model "m.onnx";')

    assert with_graph.graph is not None
    assert [node.name for node in with_graph.graph.nodes] == ["x", "w", "c", "y"]
    assert with_graph.model == ""
    assert (with_model.graph, with_model.model) == (None, "m.onnx")


def test_nodes_of_a_model_are_not_known_before_it_is_read() -> None:
    test = spec_test("target_of(deep) == lib", 'model "m.onnx";')

    assert [each.question for each in test.expectations] == [TargetOf("deep")]


def test_costs_are_by_target_and_operator() -> None:
    test = spec_test("kernels()")

    assert test.costs == {"lib": {"nn.*": 1e-3}, "tvm": {"nn.conv2d": 2e-3, "*": 1e-5}}
    assert test.name == "t"
    assert isinstance(test.expectations[0], Expectation)
    assert test.expectations[0].span.text == "kernels()"
