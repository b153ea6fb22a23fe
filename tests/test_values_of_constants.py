"""Conditions ask about the elements of constants, wherever a graph comes from."""

from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest

from collage_dsl.graph import Form, Node, TensorType
from collage_dsl.language import load, parse_graph
from collage_dsl.language.graphs.values import Values
from collage_dsl.rules import DFPattern, contents
from collage_dsl.rules.condition import UNKNOWN, Expression, Given
from collage_dsl.rules.contents import ends
from collage_dsl.rules.evaluation import evaluate
from collage_dsl.rules.facts import facts
from collage_dsl.rules.matcher import matches
from collage_dsl.rules.pattern import Pattern


def pattern(text: str) -> Pattern:
    """A pattern of three constants and an optional one, with the condition `text`."""
    spec = f"""collage 1;
        pattern p(x, c: const, d: const, e: const, b?: const) {{
          y = add?(where(x, add(c, d), e), b);
          where {text};
          yield y;
        }}
        target cpu on llvm {{ rules dfpattern(p); }}"""
    rule = load(text=spec)["cpu"].rule
    assert isinstance(rule, DFPattern)
    return rule.pattern


def condition(text: str) -> Expression:
    return pattern(text).conditions[0].condition


def constant(dtype: str, elements: object) -> Node:
    values = np.array(elements, dtype)
    return Node("n", Form.CONSTANT, TensorType(dtype, values.shape), value=values)


def of(text: str, **bound: Node) -> object:
    return evaluate(condition(text), Given(bound))


SCALAR = constant("float32", 0.1)
LIST = constant("int8", [-3, 0, 5])


@pytest.mark.parametrize(
    "text",
    [
        "value(c) == 0.1",  # the float32 nearest to 0.1 is a little more
        "value(c) <= 0.1",
        "value(c) in [0.1, 2]",
        "value(c) in 0.05..0.1",
        "all(c == 0.1)",
        "not value(c) == 0.11",
        "value(c) * 2 ~= 0.2",
        "value(c) ~= 0.101 within 0.02",
        "not value(c) ~= 0.101",
        "min(d) == -3 and max(d) == 5",
        "all(d in -3..5)",
        "not all(d in -2..5)",
        "all(d >= -3) and all(-3 <= d)",
        "all(d > -4 and d != 4)",
        "not all(d != 0)",
        "all(d != 6)",
        "all(d in [0, 5, -3])",
        "all(d * d <= 25)",
        "not all(d == 0)",
        "max(d) / 2 == 2",
        "value(c) / 2 ~= 0.05",
    ],
)
def test_these_hold(text: str) -> None:
    assert of(text, c=SCALAR, d=LIST) is True


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("value(d) == 0", "value(d) is unknown (its elements are from -3 to 5)"),
        ("value(e) == 0", "value(e) is unknown (its elements are not given)"),
        ("all(e > 0)", "min(e) is unknown (its elements are not given)"),
        ("value(b) == 0", "value(b) is unknown (it is not there)"),
    ],
)
def test_why_a_value_is_unknown_is_said(text: str, said: str) -> None:
    unknown = Node("n", Form.CONSTANT, TensorType("float32", (4,)))
    given = Given({"c": SCALAR, "d": LIST, "e": unknown})
    asked = condition(text)

    assert evaluate(asked, given) is UNKNOWN
    assert said in map(str, facts(asked, given))


def test_what_the_values_are_is_said() -> None:
    asked = condition("all(d > value(c)) or min(d) == 0")

    said = [str(fact) for fact in facts(asked, Given({"c": constant("int8", 7), "d": LIST}))]

    assert said == ["min(d) is -3", "max(d) is 5", "value(c) is 7"]


@pytest.mark.parametrize("text", ["value(c) == 1", "all(c >= 0)", "not all(c >= 0)", "max(c) > 0"])
def test_of_what_is_not_a_number_nothing_is_known(text: str) -> None:
    assert of(text, c=constant("float32", [1.0, nan])) is UNKNOWN


def test_infinity_is_a_number() -> None:
    assert of("max(c) > 100 and all(c > 0)", c=constant("float32", [1.0, inf])) is True
    assert of("max(c) - max(c) == 0", c=constant("float32", [1.0, inf])) is UNKNOWN


def test_every_element_of_none_is_as_wanted() -> None:
    empty = constant("int8", np.zeros((0, 4), "int8"))

    assert of("all(c > 0) and all(c != 0) and all(c ~= 5)", c=empty) is True
    assert of("all(c * d > 0)", c=empty, d=constant("int8", 3)) is True
    assert of("min(c) == 0 or value(c) == 0", c=empty) is UNKNOWN


def test_whole_numbers_are_exact() -> None:
    large = constant("int64", [2**53 + 1])

    assert of("value(c) == 9007199254740993", c=large) is True
    assert of("value(c) == 9007199254740992", c=large) is False
    assert of("all(c > 9007199254740992)", c=large) is True


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_short_floats_are_read(dtype: str) -> None:
    types = pytest.importorskip("ml_dtypes")
    values = np.array([0.5, -2.0], getattr(types, dtype))
    node = Node("n", Form.CONSTANT, TensorType(dtype, (2,)), value=values)

    assert of("min(c) == -2 and all(c <= 0.5) and all(c * 2 <= 1)", c=node) is True


def test_elements_at_the_same_place_are_taken_together() -> None:
    scales = {"c": constant("float32", [0.25, 1.0]), "d": constant("float32", 0.5)}
    product = constant("float32", [[0.125, 0.5]])

    assert of("all(e ~= c * d)", e=product, **scales) is True
    assert of("all(e ~= c * d)", e=constant("float32", [0.125, 0.25]), **scales) is False
    asked, given = condition("all(e ~= c)"), Given({**scales, "e": constant("float32", [1, 2, 3])})
    assert evaluate(asked, given) is UNKNOWN
    assert "all(…) is unknown (the shapes of `c` and `e` differ)" in map(str, facts(asked, given))


def test_a_large_constant_is_not_looked_at_one_by_one() -> None:
    many = constant("int8", np.resize(np.array([-1, 1], "int8"), contents.MOST_LISTED + 1))

    assert of("all(c in -1..1)", c=many) is True
    assert of("all(c != 0)", c=many) is UNKNOWN
    said = [str(fact) for fact in facts(condition("all(c != 0)"), Given({"c": many}))]
    assert "16385 elements, and at most 16384 are looked at one by one" in said[-1]


def test_a_very_large_constant_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MOST_COMPARED", 2)

    assert ends(replace(LIST, value=np.zeros(3))).unknown == (
        "it has 3 elements, and at most 2 are compared"
    )


def test_least_and_greatest_are_found_once_for_an_array() -> None:
    class Counted(Values):
        __slots__ = ("asked",)

        def min(self) -> bool | int | float:
            object.__setattr__(self, "asked", getattr(self, "asked", 0) + 1)
            return 1

    values = Counted((2,), (1, 2))
    node = Node("n", Form.CONSTANT, TensorType("int32", (2,)), value=values)

    for _ in range(3):
        assert ends(node).most == 2
    assert values.asked == 1
    before = len(contents._KEPT)
    del node, values
    assert len(contents._KEPT) < before


def test_the_notation_of_graphs_gives_values() -> None:
    asked = pattern("value(c) == 0.5 and all(d in 1..3)")
    for second, count in (("[1, 2, 3]", 1), ("[1, 2, 4]", 0), ("", 0)):
        graph = parse_graph(
            f"x: bool[3]; c = const f32[] 0.5; d = const f32[3] {second}; e = const f32[];"
            "s = add(c, d); y = where(x, s, e); return y;"
        )
        assert len(matches(asked, graph, graph.index("y"))) == count
