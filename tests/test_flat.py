"""Flat calls: trees of one operator, in any order and grouping."""

import random
import re
from collections.abc import Callable

import numpy as np
import pytest

from collage_dsl import load
from collage_dsl.diagnostics import RuleError
from collage_dsl.graph import Graph, members
from collage_dsl.language.graphs.graph_text import parse_graph
from collage_dsl.rules.matcher import matches
from collage_dsl.rules.near import near
from collage_dsl.rules.pattern import Pattern
from collage_dsl.rules.rule import DFPattern


def pattern(text: str) -> Pattern:
    spec = load(text=f"collage 1;\n{text}\ntarget t on llvm {{ rules dfpattern(p); }}")["t"]
    assert isinstance(spec.rule, DFPattern)
    return spec.rule.pattern


def graph(text: str) -> Graph:
    return parse_graph(text)


def insides(text: str, model: str, at: str) -> list[set[str]]:
    found = graph(model)
    return [
        {found.nodes[index].name for index in members(match.inside)}
        for match in matches(pattern(text), found, found.index(at))
    ]


PRODUCT = "pattern p(a, b, c) { y = multiply(a, ~0.25, b, c) flat; yield y; }"


def tree(leaves: list[str], rng: random.Random, op: str, other: Callable[[str], str]) -> list[str]:
    """The statements of a random tree of `op` over the leaves; the last is `y`."""
    waiting, lines = list(leaves), []
    while len(waiting) > 1:
        rng.shuffle(waiting)
        one, two, *waiting = waiting
        name = f"t{len(lines)}" if waiting else "y"
        one, two = (two, one) if one.startswith("const") else (one, two)
        if two.startswith("const") and rng.random() < 0.5:
            value = two.split()[-1].strip("()")
            lines.append(f"{name} = {other(value).format(one)};")
        else:
            lines.append(f"{name} = {op}({one}, {two});")
        waiting.append(name)
    return lines


@pytest.mark.parametrize("seed", range(30))
def test_a_product_is_one_thing_in_every_order_grouping_and_split_of_its_numbers(seed: int) -> None:
    rng = random.Random(seed)
    numbers = rng.choice([["0.25"], ["0.5", "0.5"], ["4", "0.0625"]])
    leaves = ["a", "b", "c", *(f"const f32[] {number}" for number in numbers)]

    def divided(value: str) -> str:
        return f"divide({{}}, const f32[] {1 / float(value)})"

    lines = tree(leaves, rng, "multiply", divided)
    while any(line.count("const f32[]") == 2 for line in lines):  # importers fold these
        lines = tree(leaves, rng, "multiply", divided)
    model = f"a: f32[4]; b: f32[4]; c: f32[4]; {' '.join(lines)} return y;"

    assert [len(inside) for inside in insides(PRODUCT, model, "y")] == [len(lines)]
    assert insides(PRODUCT.replace("0.25", "0.3"), model, "y") == []


@pytest.mark.parametrize("seed", range(10))
def test_a_sum_takes_in_what_is_subtracted(seed: int) -> None:
    rng = random.Random(seed)
    leaves = ["a", "b", "const f32[] 2", "const f32[] 1"]

    def less(value: str) -> str:
        return f"subtract({{}}, const f32[] -{value})".replace("- -", "")

    lines = tree(leaves, rng, "add", less)
    while any(line.count("const f32[]") == 2 for line in lines):
        lines = tree(leaves, rng, "add", less)
    model = f"a: f32[4]; b: f32[4]; {' '.join(lines)} return y;"

    text = "pattern p(a, b) { y = add(3, a, b) flat; yield y; }"
    assert [len(inside) for inside in insides(text, model, "y")] == [len(lines)]
    assert insides(text.replace("3", "4"), model, "y") == []


@pytest.mark.parametrize(
    ("statement", "count"),
    [
        ("y = multiply(x, multiply(x, x));", 2),
        ("y = power(x, const f32[] 3);", 1),
        ("y = multiply(square(x), x);", 2),
        ("y = multiply(negative(x), multiply(power(x, const f32[] 2), const f32[] -1));", 4),
    ],
)
def test_powers_and_signs_are_factors(statement: str, count: int) -> None:
    text = "pattern p(x) { y = multiply(x, x, x) flat; yield y; }"
    parts: list[str] = []
    result = statement.removesuffix(";").removeprefix("y = ")
    while (inner := _innermost(result)[0]) != result:  # the notation of graphs has no nested calls
        parts.append(f"n{len(parts)} = {inner};")
        result = result.replace(inner, f"n{len(parts) - 1}", 1)
    model = f"x: f32[4]; {' '.join(parts)} y = {result}; return y;"
    assert [len(inside) for inside in insides(text, model, "y")] == [count]


def _innermost(text: str) -> list[str]:
    return re.findall(r"\w+\((?:\w+|const f32\[\] -?\d+)(?:, (?:\w+|const f32\[\] -?\d+))*\)", text)


def test_a_value_may_itself_be_a_product() -> None:
    model = "a: f32[4]; b: f32[4]; c: f32[4]; t = multiply(a, b); y = multiply(t, c); return y;"
    two = "pattern p(x, z) { y = multiply(x, z) flat; yield y; }"
    three = "pattern p(x, z, w) { y = multiply(x, z, w) flat; yield y; }"
    assert insides(two, model, "y") == [{"y"}]
    assert insides(three, model, "y") == [{"t", "y"}]


def test_calls_of_a_tree_must_not_be_used_outside() -> None:
    model = "a: f32[4]; b: f32[4]; c: f32[4]; t = multiply(a, b); y = multiply(t, c); return y, t;"
    assert insides("pattern p(x, z, w) { y = multiply(x, z, w) flat; yield y; }", model, "y") == []
    tapped = "pattern p(x, z, w) { y = multiply(x, z, w) flat; taps allowed; yield y; }"
    assert insides(tapped, model, "y") == [{"t", "y"}]


def test_whole_numbers_are_not_divided_into_factors() -> None:
    text = "pattern p(x) { y = multiply(x, 0.5) flat; yield y; }"
    model = "x: {0}[4]; y = divide(x, const {0}[] 2); return y;"
    assert insides(text, model.format("f32"), "y") == [{"y"}]
    assert insides(text, model.format("i32"), "y") == []


def test_a_constant_with_different_elements_is_a_value() -> None:
    model = (
        "x: f32[2]; w = const f32[2] [0.5, 2]; t = multiply(x, w);"
        "y = divide(t, const f32[] 2); return y;"
    )
    text = "pattern p(x, w: const) { y = multiply(x, w, 0.5) flat; yield y; }"
    assert insides(text, model, "y") == [{"t", "y"}]
    assert insides("pattern p(x) { y = multiply(x, 0.5) flat; yield y; }", model, "y") == [{"y"}]


def test_rounding_of_constants_is_allowed_for() -> None:
    third = np.float32(1) / np.float32(3)
    model = (
        f"x: f32[4]; t = multiply(x, const f32[] {third});y = multiply(t, const f32[] 3); return y;"
    )
    assert len(insides("pattern p(x) { y = multiply(x, 1) flat; yield y; }", model, "y")) == 1


def test_a_long_chain_stops_at_the_most_calls_of_a_tree() -> None:
    lines = ["e = exp(x); t0 = multiply(e, z);"]
    lines += [f"t{at} = multiply(t{at - 1}, const f32[] 1);" for at in range(1, 200)]
    model = f"x: f32[4]; z: f32[4]; {' '.join(lines)} return t199;"
    text = "pattern p(x, z) { y = multiply(exp(x), z) flat; yield y; }"
    assert [len(inside) for inside in insides(text, model, "t31")] == [33]
    assert insides(text, model, "t32") == []


def test_near_misses_count_what_held() -> None:
    text = "pattern p(x) { y = multiply(exp(x), 0.5, tanh(x)) flat; yield y; }"
    model = graph(
        "x: f32[4]; e = exp(x); t = tanh(x); a = multiply(e, t);"
        "y = multiply(a, const f32[] 0.4); return y;"
    )
    misses = near(pattern(text), model).misses
    ((share, explanation),) = [miss for miss in misses if miss[1].root == model.index("y")]
    assert (share.held, share.of) == (3, 4)
    assert explanation.attempt.because == "the numbers of the product `y` make 0.4, not 0.5"


@pytest.mark.parametrize(
    ("call", "code", "says"),
    [
        ("multiply(x, 2, x)", "E0203", "write `flat`"),
        ("subtract(x, 2) flat", "E0306", "not associative"),
        ("multiply?(x, 2) flat", "E0306", "not optional"),
        ("(add | multiply)(x, 2) flat", "E0306", "one operator"),
        ("add(x, 2) ordered flat", "E0306", "any order"),
        ("add(x, 2) [axis == 1] flat", "E0306", "attributes"),
        ("add(1, 2) flat", "E0301", "numbers alone"),
        ("add(x) flat", "E0203", "two operands"),
        ("add((x, x), 2) flat", "E0312", "a tuple"),
        ("repeat[1..2] add(x, 2) flat", "E0301", "not repeated"),
    ],
)
def test_what_cannot_be_flat_is_an_error(call: str, code: str, says: str) -> None:
    with pytest.raises(RuleError) as caught:
        pattern(f"pattern p(x) {{ y = {call}; yield y; }}")
    assert [each.code for each in caught.value.diagnostics] == [code]
    assert says in str(caught.value)
