"""What is written is what is in the spec, with a default for what is not."""

import pytest

from collage_dsl.graph import Kind, Measuring, Toolchain
from collage_dsl.language import load
from collage_dsl.language.reasoning.patterns.pattern_shape import called
from collage_dsl.rules import (
    CombineByPrimitives,
    Constants,
    DFPattern,
    FusionRule,
    FusionSpec,
    Horizontal,
    Host,
    KindPair,
    Limits,
    MaxCoalesce,
    OnlyValid,
    OpCallByKind,
    OpPredicate,
    Pattern,
    Tagged,
    TupleArgs,
    Union,
    Vertical,
)
from collage_dsl.rules.condition import Compare, Constant, DimAt, Has, Holds, Not, Or, Rank
from collage_dsl.rules.pattern import PatternCall
from collage_dsl.rules.placement import ByName, ByOperator, Placement
from collage_dsl.rules.predicate import Predicate

INNER = OpCallByKind((Kind.REDUCE,))
SUPPORTS = Predicate("lib.supports", ("call",), "backend:lib")
FITS = Predicate("fits", ("call",), "package.module:fits")


def spec(text: str) -> FusionSpec:
    (found,) = load(text=f"collage 1; {text}").values()
    return found


def rule(text: str) -> FusionRule:
    return spec(f"target t on llvm {{ rules {text}; }}").rule


def pattern(text: str) -> Pattern:
    found = spec(f"{text} target t on llvm {{ rules dfpattern(p); }}").rule
    assert isinstance(found, DFPattern)
    return found.pattern


def test_a_target_has_defaults() -> None:
    wanted = FusionSpec(Toolchain("t", "cuda", None, {}, 0), OpCallByKind(), Limits())

    assert spec("target t on cuda { rules op_call_by_kind(); }") == wanted
    assert spec("target t on cuda { rules op_call_by_kind(); }").coalesce is False
    assert spec("target t on cuda { rules op_call_by_kind(); limits {} }").limits.taps is False


def test_a_target_has_what_is_written() -> None:
    written = """
      target t on cuda(a: 1, b: "c", d: false, e: 0.5, f: ["g", "h"], i: []) {
        compiler "library";
        variants [fast, im2col];
        priority -3;
        rules only_valid(op_call_by_kind(reduce), max_exits: 2, taps: true);
        limits { max_exits any; max_depth 4; max_nodes 5; taps none; }
        measure { repeats 5; budget 500ms; }
        after max_coalesce();
      }"""
    options = {"a": 1, "b": "c", "d": False, "e": 0.5, "f": ("g", "h"), "i": ()}
    how, variants = Measuring(repeats=5, budget=0.5), ("fast", "im2col")

    assert spec(written) == FusionSpec(
        Toolchain("t", "cuda", "library", options, -3, how, variants),
        OnlyValid(OpCallByKind((Kind.REDUCE,)), Limits(max_exits=2, taps=True)),
        Limits(max_exits=None, max_depth=4, max_nodes=5),
        coalesce=True,
    )


def test_a_fallback_proposes_every_operator() -> None:
    kinds = "anchor, elementwise, broadcast, injective, reduce, opaque"

    assert spec(f"target t on llvm {{ rules op_call_by_kind({kinds}); fallback; }}").fallback


def test_taps_are_a_word_or_a_truth() -> None:
    def taps(word: str) -> bool:
        text = f"target t on llvm {{ rules op_call_by_kind(); limits {{ taps {word}; }} }}"
        return spec(text).limits.taps

    assert [taps(word) for word in ("allowed", "true")] == [True, True]
    assert [taps(word) for word in ("none", "false")] == [False, False]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("union(host(), INNER)", Union((Host(), INNER))),
        ('composite("a", INNER)', Tagged("a", INNER)),
        ("primitive(INNER)", INNER),
        ("horizontal(INNER)", Horizontal(INNER, 3)),
        ("horizontal(INNER, max: 2)", Horizontal(INNER, 2)),
        ("horizontal(INNER, max: 8)", Horizontal(INNER, 8)),
        ("vertical(INNER)", Vertical(INNER)),
        (
            "vertical(INNER, prologue: none, epilogue: elementwise, max_depth: 2)",
            Vertical(INNER, None, Kind.ELEMENTWISE, 2),
        ),
        (
            "vertical(INNER, prologue: elementwise, epilogue: none)",
            Vertical(INNER, Kind.ELEMENTWISE, None),
        ),
        ("max_coalesce(INNER)", MaxCoalesce(INNER, "largest")),
        ("max_coalesce(INNER, prefer: largest)", MaxCoalesce(INNER, "largest")),
        ("max_coalesce(INNER, prefer: first)", MaxCoalesce(INNER, "first")),
        ('op_predicate("lib.supports")', OpPredicate(SUPPORTS)),
        (
            'op_predicate("lib.supports", ops: [nn.relu, exp, nn.relu])',
            OpPredicate(SUPPORTS, ("nn.relu", "exp")),
        ),
        (
            """combine_by_primitives(
              INNER, using: [kind(anchor -> broadcast), constants],
              max_depth: 2, max_nodes: 3, max_splits: 0)""",
            CombineByPrimitives(
                INNER, (KindPair(Kind.ANCHOR, Kind.BROADCAST), Constants()), 2, 3, 0
            ),
        ),
        (
            "combine_by_primitives(INNER, using: [tuple_args])",
            CombineByPrimitives(INNER, (TupleArgs(),)),
        ),
    ],
)
def test_a_rule_is_what_is_written(text: str, wanted: FusionRule) -> None:
    assert rule(text.replace("INNER", "op_call_by_kind(reduce)")) == wanted


def test_a_rule_asks_a_predicate_of_the_file() -> None:
    asks = spec(
        """
        extern predicate fits(call) from "package.module:fits";
        target t on llvm { rules op_predicate(fits); }"""
    )

    assert asks.rule == OpPredicate(FITS)


def test_placements_are_what_is_written() -> None:
    placed = spec(
        """
        target t on llvm { rules op_call_by_kind(); }
        pin name("/head/*") to t because "accuracy";
        forbid op(nn.relu, exp) on t;"""
    ).placements

    assert placed == (
        Placement("pin", ByName("/head/*"), "accuracy"),
        Placement("forbid", ByOperator(("nn.relu", "exp")), ""),
    )


def test_a_pattern_has_no_anchor_unless_it_says_so() -> None:
    assert pattern("pattern p(x) { k = exp(x); y = tanh(k); yield y; }").anchor == ""
    assert pattern("pattern p(x) { k = exp(x); y = tanh(k); anchor k; yield y; }").anchor == "k"


def test_named_dimensions_are_conditions() -> None:
    found = pattern("pattern p(x: [n, 4], z: [n]) { y = add(x, z); yield y; }").conditions

    assert [where.condition for where in found] == [
        Compare("==", Rank("x"), Constant(2)),
        Compare("==", DimAt("x", 1), Constant(4)),
        Compare("==", Rank("z"), Constant(1)),
        Compare("==", DimAt("z", 0), DimAt("x", 0)),
    ]


def test_dimensions_of_an_optional_value_are_those_where_it_is_there() -> None:
    found = pattern(
        "pattern p(b?: [n, n], x: [n]) { y = add?(nn.relu(x), b); yield y; }"
    ).conditions
    absent = Not(Has("b"))

    assert [where.condition for where in found] == [
        Or(absent, Compare("==", Rank("b"), Constant(2))),
        Or(absent, Compare("==", DimAt("b", 1), DimAt("b", 0))),
        Compare("==", Rank("x"), Constant(1)),
        Or(absent, Compare("==", DimAt("x", 0), DimAt("b", 0))),
    ]


def test_a_predicate_is_asked_about_the_values_that_are_written() -> None:
    (where,) = pattern(
        """
        extern predicate fits(a, b) from "package.module:fits";
        pattern p(x, w) { y = add(x, w); where fits(w, x); yield y; }"""
    ).conditions

    assert isinstance(where.condition, Holds)
    assert where.condition.of == ("w", "x")


def test_parameters_and_calls_know_where_they_are_written() -> None:
    found = pattern(
        "pattern inner(x) { y = exp(x); yield y; } pattern p(first) { y = inner(first); yield y; }"
    )
    call = found.bindings[0].value

    assert found.parameters[0].span is not None
    assert found.parameters[0].span.text == "first"
    assert isinstance(call, PatternCall)
    assert call.span is not None
    assert call.span.text == "inner"


def test_the_patterns_that_a_pattern_calls_are_found_in_every_operand() -> None:
    found = pattern(
        """
        pattern a(x) { y = exp(x); yield y; }
        pattern b(x) { y = tanh(a(x)); yield y; }
        pattern p(x) {
          y = exp(split(a(x)).1);
          z = repeat[1..2] add(y, b(x));
          yield z;
        }"""
    )

    assert [each.name for each in called(found)] == ["a", "a", "b"]
