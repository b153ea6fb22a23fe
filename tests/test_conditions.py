"""Conditions are true, false or unknown."""

from dataclasses import replace
from itertools import product

import pytest

from collage_dsl.graph import Form, Node, TensorType, TupleType
from collage_dsl.language import load
from collage_dsl.rules import DFPattern
from collage_dsl.rules.condition import (
    UNKNOWN,
    And,
    Attr,
    Calculate,
    Compare,
    Constant,
    Each,
    Expression,
    Given,
    Not,
    Or,
    Range,
    Within,
    depends_on_facts,
)
from collage_dsl.rules.evaluation import evaluate
from collage_dsl.rules.facts import facts


def tensor(dtype: str, *shape: int | str) -> Node:
    return Node("n", Form.INPUT, TensorType(dtype, shape))


VALUES = {
    "x": tensor("float32", 1, 16, 8, 8),
    "s": tensor("bfloat16", "n", 64),
    "t": tensor("bfloat16", "n", 64),
    "q": tensor("int8", "?", 64),
    "u": Node("u", Form.INPUT, TensorType("float32", None)),
}
"""`b` is an optional parameter that is not there."""


def condition(text: str) -> Expression:
    """`text` as a condition on values of those names."""
    pattern = f"""collage 1;
        pattern p(x, s, t, q, u, b?) {{
          y = add?(concat((x, s, add(add(t, q), u))), b);
          where {text};
          yield y;
        }}
        target cpu on llvm {{ rules dfpattern(p); }}"""
    rule = load(text=pattern)["cpu"].rule
    assert isinstance(rule, DFPattern)
    return rule.pattern.conditions[0].condition


def of(text: str) -> object:
    return evaluate(condition(text), Given(VALUES))


@pytest.mark.parametrize(
    "text",
    [
        "dtype(x) == f32",
        "dtype(s) in [f32, bf16]",
        "rank(x) == 4",
        "dim(x, 1) % 16 == 0",
        "dim(x, -1) == dim(x, 2)",
        "dim(x, 1) / 3 == 5",
        "shape(x) == [1, 16, 8, 8]",
        "shape(x) in [[1], [1, 16, 8, 8]]",
        "16 in shape(x)",
        "not has(b)",
        "rank(s) == 2 and dim(s, 1) == 64",
        "2 + 3 * 4 - 6 / 2 == 11 or rank(x) == 0",
        "shape(s) == shape(t)",
        "shape(x) != shape(s)",
        "shape(s) != [4, 63]",
        "rank(x) == 4 or dim(s, 0) == 1",
        "not (rank(x) == 5 and dim(s, 0) == 1)",
    ],
)
def test_these_hold(text: str) -> None:
    assert of(text) is True


@pytest.mark.parametrize(
    "text",
    [
        "dtype(x) == f16",
        "dtype(x) in [f16, bf16]",
        "rank(x) < 4",
        "has(b)",
        "shape(x) == [1, 16, 8, 9]",
        "7 in shape(x)",
        "shape(s) == [4, 63]",
        "rank(x) == 5 and dim(s, 0) == 1",
    ],
)
def test_these_do_not(text: str) -> None:
    assert of(text) is False


@pytest.mark.parametrize(
    "text",
    [
        "dim(s, 0) == 1",
        "dim(s, 0) % 16 == 0",
        "not dim(s, 0) == 1",
        "shape(s) == [4, 64]",
        "shape(s) in [[3, 63], [4, 64]]",
        "shape(q) == shape(q)",
        "rank(u) == 4",
        "dim(x, 7) == 1",
        "dtype(b) == f32 or rank(x) == 5",
        "rank(x) == 4 and dim(s, 0) == 1",
        "1 / (rank(x) - 4) == 1",
    ],
)
def test_these_cannot_be_known(text: str) -> None:
    assert of(text) is UNKNOWN


TRUTHS = {True: Constant(True), False: Constant(False), UNKNOWN: Attr("missing")}


@pytest.mark.parametrize(("left", "right"), tuple(product(TRUTHS, repeat=2)))
def test_and_and_or_are_those_of_three_valued_logic(left: object, right: object) -> None:
    """The least and the greatest, with unknown between false and true."""
    rank = {False: 0, UNKNOWN: 1, True: 2}
    both = evaluate(And(TRUTHS[left], TRUTHS[right]), Given())
    either = evaluate(Or(TRUTHS[left], TRUTHS[right]), Given())

    assert rank[both] == min(rank[left], rank[right])  # type: ignore[index]
    assert rank[either] == max(rank[left], rank[right])  # type: ignore[index]


def test_not_of_unknown_is_unknown() -> None:
    assert evaluate(Not(TRUTHS[UNKNOWN]), Given()) is UNKNOWN


def test_a_dtype_attribute_is_compared_by_its_short_name() -> None:
    same = Compare("==", Attr("out_dtype"), Constant("f32"))

    assert evaluate(same, Given(attrs={"out_dtype": "float32"})) is True
    assert evaluate(same, Given(attrs={"out_dtype": None})) is UNKNOWN


@pytest.mark.parametrize(
    ("condition", "without", "of_one"),
    [
        (Compare("==", Attr("axis"), Constant(None)), True, False),
        (Compare("!=", Attr("axis"), Constant(None)), False, True),
        (Compare("==", Constant(None), Attr("axis")), True, False),
        (Compare("!=", Constant(None), Attr("axis")), False, True),
        (Within(Attr("axis"), Constant((None, 1))), True, True),
        (Within(Attr("axis"), Constant((None, 2))), True, False),
        (Within(Attr("axis"), Constant((None,))), True, False),
        (Within(Attr("axis"), Constant((1, 2))), UNKNOWN, True),
        (Compare("==", Attr("axis"), Constant(1)), UNKNOWN, True),
        (Compare("!=", Attr("axis"), Constant(1)), UNKNOWN, False),
        (Compare("==", Attr("axis"), Attr("axis")), UNKNOWN, True),
        (Compare("<=", Attr("axis"), Constant(1)), UNKNOWN, True),
        (Within(Attr("axis"), Range(0, 1)), UNKNOWN, True),
        (Compare("<=", Each(Attr("axis")), Constant(1)), UNKNOWN, True),
    ],
)
def test_whether_an_attribute_has_a_value_is_always_known(
    condition: Expression, without: object, of_one: object
) -> None:
    """What is asked of its value is unknown where it has none, as it was before `none`."""
    assert evaluate(condition, Given()) is without
    assert evaluate(condition, Given(attrs={"axis": None})) is without
    assert evaluate(condition, Given(attrs={"axis": 1})) is of_one


def test_a_fact_about_an_attribute_without_a_value_says_none() -> None:
    asked = Compare("==", Attr("axis"), Constant(1))

    assert [str(fact) for fact in facts(asked, Given(attrs={"axis": None}))] == ["axis is none"]


def test_arithmetic_on_anything_but_numbers_is_unknown() -> None:
    assert evaluate(Calculate("+", Constant("a"), Constant(1)), Given()) is UNKNOWN
    assert evaluate(Calculate("*", Constant(10**400), Constant(0.5)), Given()) is UNKNOWN


@pytest.mark.parametrize(
    ("text", "facts_said"),
    [
        ("rank(x) == 4 and not (shape(x) == [1])", ["rank(x) is 4", "shape(x) is [1, 16, 8, 8]"]),
        ("size(x) < 5 or bytes(x) < 5", ["size(x) is 1024", "bytes(x) is 4096"]),
        ("has(b)", ["has(b) is false"]),
        ("dim(s, 0) == 1", ["dim(s, 0) is unknown (`n` is symbolic)"]),
        ("size(s) == 1", ["size(s) is unknown (`n` is symbolic)"]),
        ("dim(s, 5) == 1", ["dim(s, 5) is unknown (`s` has 2 dimensions)"]),
        ("rank(u) == 1", ["rank(u) is unknown (the rank of `u` is not known)"]),
        ("dtype(b) == f32", ["dtype(b) is unknown (it is not there)"]),
        ("rank(t) == 1", ["rank(t) is unknown (`t` is no tensor)"]),
    ],
)
def test_the_facts_of_a_condition_are_each_said_once(text: str, facts_said: list[str]) -> None:
    named = {name: replace(node, name=name) for name, node in VALUES.items()}
    tuple_type = TupleType((TensorType("float32", (1,)),))
    given = Given({**named, "t": Node("t", Form.INPUT, tuple_type)})

    asked = And(condition(text), condition(text))

    assert [str(fact) for fact in facts(asked, given)] == facts_said


def test_what_has_no_order_is_neither_less_nor_more() -> None:
    assert evaluate(Compare("<", Constant("a"), Constant("b")), Given()) is UNKNOWN
    assert evaluate(Compare("==", Constant("a"), Constant("b")), Given()) is False


def test_whether_an_unknown_value_is_in_a_set_is_unknown() -> None:
    assert of("dim(s, 0) in [1, 2]") is UNKNOWN
    assert of("dim(s, 1) in [64, 2]") is True


def test_a_condition_depends_on_facts_where_any_of_its_parts_does() -> None:
    assert depends_on_facts(condition("not (rank(x) == 4)"))
    assert depends_on_facts(condition("1 < rank(x) * 2"))
    assert not depends_on_facts(Not(Compare("==", Attr("groups"), Constant(1))))
