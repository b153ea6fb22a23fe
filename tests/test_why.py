"""Why a pattern does not match: the texts for each sort of condition, and what is nearest."""

from textwrap import dedent

import pytest

from collage_dsl.graph import Graph
from collage_dsl.language import parse_graph
from collage_dsl.language.loading import patterns
from collage_dsl.report.why import NearDocument, StepDocument, WhyDocument, near, why
from collage_dsl.report.why_text import MOST_LINES
from collage_dsl.rules.condition import TOLERANCE, Compare, Constant, Holds, Uses, Where
from collage_dsl.rules.explain import MOST_STEPS, explain
from collage_dsl.rules.matcher import Attempt, matches
from collage_dsl.rules.near import share_of
from collage_dsl.rules.pattern import (
    Binding,
    Call,
    Either,
    FieldOf,
    Number,
    Parameter,
    Pattern,
    Reference,
    Repeat,
)
from collage_dsl.rules.predicate import Predicate, PredicateError
from collage_dsl.rules.written import operand_text

CONV = "x: f32[1,16,8,8]; w = const f32[17,16,3,3]; c = nn.conv2d(x, w); y = nn.relu(c); return y;"
RELU = "x: f32[4, 8]; y = nn.relu(x); return y;"


def pattern(text: str) -> Pattern:
    (found,) = patterns(text=f"collage 1;\n{text}", name="p.collage").values()
    return found


def answer(text: str, graph: str, at: str = "y") -> WhyDocument:
    return why(pattern(text), parse_graph(graph, "g"), at=at)


def head(text: str) -> str:
    """What is said before the tree, without the first line and the count of parts."""
    return "\n".join(line.strip() for line in text.split("\n\n")[0].splitlines()[1:-1])


def marked(text: str) -> str:
    """The line that is marked as the reason, with single spaces."""
    (line,) = [line for line in text.splitlines() if line.endswith("<- the reason")]
    return " ".join(line.removesuffix("<- the reason").split())


KINDS = [
    pytest.param(
        "pattern p(x) { y = nn.relu(x); where dtype(x) in [f16, bf16]; yield y; }",
        RELU,
        "p.collage:2:38: `dtype(x) in [f16, bf16]` does not hold (at `y`)\ndtype(x) is f32",
        "2:38 ✗ where dtype(x) in [f16, bf16] dtype(x) is f32",
        id="dtype",
    ),
    pytest.param(
        'pattern p(x) { y = nn.relu(x); where rank(x) == 3 else "batched only"; yield y; }',
        RELU,
        "p.collage:2:38: batched only (at `y`)\nrank(x) is 2",
        "2:38 ✗ where rank(x) == 3 rank(x) is 2",
        id="rank",
    ),
    pytest.param(
        "pattern p(x, w: const) { k = nn.conv2d(x, w); y = nn.relu(k);"
        ' where dim(w, 0) % 16 == 0 else "blocks of 16"; yield y; }',
        CONV,
        "p.collage:2:69: blocks of 16 (at `y`)\ndim(w, 0) is 17",
        "2:69 ✗ where dim(w, 0) % 16 == 0 dim(w, 0) is 17",
        id="dimension",
    ),
    pytest.param(
        "pattern p(x: [n, 4]) { y = nn.relu(x); yield y; }",
        RELU,
        "p.collage:2:18: dimension 1 of `x` must be 4 (at `y`)\ndim(x, 1) is 8",
        "2:18 ✗ where 4 dim(x, 1) is 8",
        id="dimension of a parameter",
    ),
    pytest.param(
        "pattern p(x) { y = nn.relu(x); where dim(x, 0) % 2 == 0; yield y; }",
        RELU.replace("4, 8", "n, 8"),
        "p.collage:2:38: `dim(x, 0) % 2 == 0` is unknown (at `y`)\n"
        "dim(x, 0) is unknown (`n` is symbolic)\n"
        "the input `x` has symbols in its shape: write numbers in their place; "
        "an ONNX model takes them with the argument `shapes` (`x=1,8`)",
        "2:38 ? where dim(x, 0) % 2 == 0 dim(x, 0) is unknown (`n` is symbolic)",
        id="symbolic dimension",
    ),
    pytest.param(
        "pattern p(x) { y = nn.relu(x); where rank(x) == 2; yield y; }",
        RELU.replace("4, 8", "*"),
        "p.collage:2:38: `rank(x) == 2` is unknown (at `y`)\n"
        "rank(x) is unknown (the rank of `x` is not known)",
        "2:38 ? where rank(x) == 2 rank(x) is unknown (the rank of `x` is not known)",
        id="unknown rank",
    ),
    pytest.param(
        "pattern p(x, w) { k = nn.conv2d(x, w) [strides[*] == 2]; y = nn.relu(k); yield y; }",
        CONV,
        "p.collage:2:40: `strides[*] == 2` does not hold (at `c`)\nstrides is [1, 1]",
        "2:40 ✗ strides[*] == 2 strides is [1, 1]",
        id="attribute",
    ),
    pytest.param(
        'pattern p(x, w) { y = nn.conv2d(x, w) [data_layout == "NHWC"]; yield y; }',
        CONV.replace("y = nn.relu(c);", "").replace("c =", "y ="),
        'p.collage:2:40: `data_layout == "NHWC"` does not hold (at `y`)\ndata_layout is "NCHW"',
        '2:40 ✗ data_layout == "NHWC" data_layout is "NCHW"',
        id="attribute that is a text",
    ),
    pytest.param(
        "pattern p(x) { y = sum(x) [axis != none]; yield y; }",
        "x: f32[4]; y = sum(x); return y;",
        "p.collage:2:28: `axis != none` does not hold (at `y`)\naxis is none",
        "2:28 ✗ axis != none axis is none",
        id="attribute that has no value",
    ),
    pytest.param(
        "pattern p(x) { y = sum(x) [axis == [1]]; yield y; }",
        "x: f32[4]; y = sum(x); return y;",
        "p.collage:2:28: `axis == [1]` is unknown (at `y`)\naxis is none",
        "2:28 ? axis == [1] axis is none",
        id="attribute that has no value to compare",
    ),
    pytest.param(
        "pattern p(x, w: const) { k = matmul(x, w); yield k; }",
        "x: f32[4,4]; w: f32[4,4]; y = matmul(x, w); return y;",
        "p.collage:2:14: `w` is not a constant, as `w` must be",
        "2:14 ✗ w: const w: input, f32[4, 4] `w` is not a constant, as `w` must be",
        id="constant",
    ),
    pytest.param(
        "pattern p(x) { y = multiply(x, 0.5); yield y; }",
        "x: f32[4]; y = multiply(x, 0.25); return y;",
        "p.collage:2:20: `y.const1` is 0.25, not 0.5",
        "2:20 ✗ 0.5 y.const1: constant, f32[] `y.const1` is 0.25, not 0.5",
        id="number",
    ),
    pytest.param(
        "pattern p(x) { y = nn.relu(exp(x)); yield y; }",
        RELU,
        "p.collage:2:28: `x` is an input, not exp",
        "2:28 ✗ exp(x) x: input, f32[4, 8] `x` is an input, not exp",
        id="operator",
    ),
    pytest.param(
        "pattern p(x) { y = strided_slice(x, _, _, _); yield y; }",
        "x: f32[4]; y = strided_slice(x, [0], [0], [2], [1]); return y;",
        "p.collage:2:20: `y` has 5 operands, not 4",
        "2:20 ✗ y = strided_slice(x, _, _, _) y: strided_slice, f32[2] `y` has 5 operands, not 4",
        id="operand count",
    ),
    pytest.param(
        "pattern p(x) { y = nn.relu?(nn.relu?(exp(x))); yield y; }",
        "x: f32[4]; y = tanh(x); return y;",
        "p.collage:2:38: `y` is a call of tanh, not exp",
        "2:38 ✗ exp(x) y: tanh, f32[4] `y` is a call of tanh, not exp",
        id="neither the optional call nor the other",
    ),
    pytest.param(
        "pattern p(x) { y = nn.relu?(exp(x)); yield y; }",
        "x: f32[4]; y = nn.relu(x); return y;",
        "p.collage:2:29: `x` is an input, not exp",
        "2:29 ✗ exp(x) x: input, f32[4] `x` is an input, not exp",
        id="the optional call, and not the other",
    ),
    pytest.param(
        "pattern p(x) { y = add(exp(x), 0.5) flat; yield y; }",
        "x: f32[4]; b = const f32[4] [1, 2, 3, 4]; e = exp(x); y = add(e, b); return y;",
        "p.collage:2:20: `y` is no sum of 1 value and numbers",
        "2:20 ✗ y = add(exp(x), 0.5) flat y: add, f32[4] `y` is no sum of 1 value and numbers",
        id="sum of a value and a constant of several numbers",
    ),
    pytest.param(
        "pattern p(x) { e = exp(x); y = nn.relu(e); yield y; }",
        "x: f32[4]; e = exp(x); y = nn.relu(e); return y, e;",
        "p.collage:2:9: `e` is used outside the match too",
        "✗ `e` is used outside the match too",
        id="tap used outside",
    ),
    pytest.param(
        'pattern p(x, b?) { k = nn.relu(x); y = add?(k, b); where has(b) else "no bias";'
        " yield y; }",
        RELU,
        "p.collage:2:58: no bias (at `y`)\nhas(b) is false",
        "2:58 ✗ where has(b) has(b) is false",
        id="optional absent",
    ),
    pytest.param(
        "pattern p(x, b?) { k = nn.relu(x); y = add?(k, b); where rank(b) == 1; yield y; }",
        RELU,
        "p.collage:2:58: `rank(b) == 1` is unknown (at `y`)\nrank(b) is unknown (it is not there)",
        "2:58 ? where rank(b) == 1 rank(b) is unknown (it is not there)",
        id="fact of what is absent",
    ),
    pytest.param(
        "pattern p(x) { y = (nn.relu | nn.gelu)(x); yield y; }",
        "x: f32[4]; y = exp(x); return y;",
        "p.collage:2:21: `y` is a call of exp, not nn.relu | nn.gelu",
        "2:21 ✗ y = (nn.relu | nn.gelu)(x) y: exp, f32[4]"
        " `y` is a call of exp, not nn.relu | nn.gelu",
        id="alternative operators",
    ),
    pytest.param(
        "pattern p(a, b) { y = concat((a, exp(b))); yield y; }",
        "x: f32[4]; t = (x, x, x); y = concat(t); return y;",
        "p.collage:2:23: `t` is a tuple of 3, not a tuple of 2",
        "2:23 ✗ (a, exp(b)) t: tuple, (f32[4], f32[4], f32[4])"
        " `t` is a tuple of 3, not a tuple of 2",
        id="tuple",
    ),
    pytest.param(
        "pattern p(x) { s = split(x); y = nn.relu(s.1); yield y; }",
        "x: f32[4]; s = split(x) [indices_or_sections = 2]; t = s.0; y = nn.relu(t); return y;",
        "p.collage:2:34: `t` is field 0 of a tuple, not field 1",
        "2:34 ✗ s.1 t: projection, f32[2] `t` is field 0 of a tuple, not field 1",
        id="projection",
    ),
    pytest.param(
        "pattern p(x) { r = nn.relu(x); s = exp(x); y = subtract(r, s); yield y; }",
        "x: f32[4]; z: f32[4]; r = nn.relu(x); s = exp(z); y = subtract(r, s); return y;",
        "p.collage:2:11: `x` is `x` already and cannot be `z` too",
        "2:11 ✗ x z: input, f32[4] `x` is `x` already and cannot be `z` too",
        id="the same value twice",
    ),
    pytest.param(
        "pattern p(x) { y = repeat[2..3] nn.relu(x); yield y; }",
        RELU,
        "p.collage:2:33: `x` is an input, not nn.relu",
        "2:33 ✗ nn.relu(repeat[0..1] nn.relu(x)) x: input, f32[4, 8] `x` is an input, not nn.relu",
        id="chain",
    ),
]


@pytest.mark.parametrize(("text", "graph", "said", "line"), KINDS)
def test_each_sort_of_condition_is_named_with_its_place_and_what_the_model_has(
    text: str, graph: str, said: str, line: str
) -> None:
    document = answer(text, graph)

    assert (head(str(document)), marked(str(document))) == (said, line)
    assert document.place is not None
    assert document.held < document.parts
    assert document == WhyDocument.model_validate_json(document.model_dump_json())


@pytest.mark.parametrize(("text", "graph", "said", "line"), KINDS)
def test_the_reason_is_that_of_the_matcher(text: str, graph: str, said: str, line: str) -> None:
    attempt, parsed = Attempt(), parse_graph(graph)
    assert matches(pattern(text), parsed, parsed.index("y"), attempt) == ()

    assert answer(text, graph).because == attempt.because


def uses_once(*conditions: Where) -> Pattern:
    """A relu, or a value added to itself; built here, since not every spec needs them."""
    x = Reference("x")
    either = Either((Call(("nn.relu",), (x,)), Call(("add",), (x, x))))
    return Pattern("p", (Parameter("x"),), (Binding("y", either),), "y", conditions)


ONCE = Where(Compare("==", Uses("x"), Constant(1)), "`x` must have one use")


def test_use_counts_are_shown() -> None:
    graph = parse_graph("x: f32[4]; y = nn.relu(x); z = exp(x); return y, z;")
    document = why(uses_once(ONCE), graph, at="y")

    assert head(str(document)) == "`x` must have one use (at `y`)\nuses(x) is 2"
    assert marked(str(document)) == "✗ where a condition uses(x) is 2"


def test_where_a_node_is_a_call_of_no_alternative_all_are_named() -> None:
    text = "pattern p(x) { y = (nn.relu(x) | add(exp(x), x)); yield y; }"

    found = answer(text, "x: f32[4, 8]; y = tanh(x); return y;")

    said = "`y` is a call of tanh, not nn.relu | add"
    assert head(str(found)) == f"p.collage:2:21: {said}"
    assert marked(str(found)).endswith(f"y: tanh, f32[4, 8] {said}")
    assert "0 of 1 parts held" in str(found), "the alternative with the fewest parts"


def test_every_alternative_is_shown_with_its_refusal() -> None:
    graph = parse_graph("x: f32[4]; z: f32[4]; y = add(x, z); return y;", "g")

    assert str(why(uses_once(), graph, at="y")) == dedent("""\
        p does not match at `y` (add, f32[4]) of g
          `x` is `x` already and cannot be `z` too
          1 of 2 parts held

          ✗ p(x)                            y: add, f32[4]
            ✗ y = (nn.relu(x) | add(x, x))  y: add, f32[4]
              ✗ nn.relu(x)                                    `y` is a call of add, not nn.relu
              ✗ add(x, x)                   y: add, f32[4]
                ✗ operands as written
                  ✓ x                       x: input, f32[4]
                  ✗ x                       z: input, f32[4]  `x` is `x` already and cannot be `z` too  <- the reason
                ✗ operands swapped                            `x` is `z` already and cannot be `x` too
        """)  # fmt: skip  # noqa: E501


def test_a_predicate_gives_its_reason_and_is_not_asked_after_a_failure() -> None:
    fits = Where(Holds(Predicate("fits", ("x",), "a:b"), ("x",)))
    once = parse_graph(RELU)
    twice = parse_graph("x: f32[4]; y = nn.relu(x); z = exp(x); return y, z;")
    asked: list[str] = []

    def lookup(predicate: Predicate):  # type: ignore[no-untyped-def]
        asked.append(predicate.name)
        return lambda question: "too large for the cache"

    document = why(uses_once(ONCE, fits), once, at="y", lookup=lookup)
    assert document.because == "too large for the cache (at `y`)"
    assert marked(str(document)) == "✗ where a condition too large for the cache"
    asked.clear()
    document = why(uses_once(ONCE, fits), twice, at="y", lookup=lookup)
    answers = [c.answer.value for way in document.tried.ways for c in way.conditions]
    assert (answers, asked) == (["refused", "not asked"], [])
    with pytest.raises(PredicateError):
        why(uses_once(fits), once, at="y")


BLOCK = """
pattern activation(x) { y = (nn.relu | nn.gelu)(x); yield y; }
pattern block(x, w: const, b?: const) {
  k = nn.conv2d(x, w) [groups == 1];
  s = add?(k, b);
  y = activation?(s);
  where dim(w, 0) % 16 == 0 else "blocks of 16";
  where dtype(x) in [f16, bf16];
  yield y;
}"""


def block() -> Pattern:
    return patterns(text=f"collage 1;{BLOCK}", name="p.collage")["block"]


def block_graph(channels: int = 17) -> Graph:
    return parse_graph(
        f"x: f32[1,16,8,8]; w = const f32[{channels},16,3,3]; b = const f32[{channels},1,1];"
        "c = nn.conv2d(x, w); d = add(b, c); y = nn.relu(d); return y;",
        "g",
    )


def test_the_tree_shows_operand_orders_optional_nodes_and_every_condition() -> None:
    assert str(why(block(), block_graph(), at="y")) == dedent("""\
        block does not match at `y` (nn.relu, f32[1, 17, 6, 6]) of g
          p.collage:7:9: blocks of 16 (at `y`)
          dim(w, 0) is 17
          6 of 8 parts held

        3:9   ✗ block(x, w, b)                   y: nn.relu, f32[1, 17, 6, 6]
        6:7     ✓ y = activation?(s)             y: nn.relu, f32[1, 17, 6, 6]    present
        2:30      ✓ y = (nn.relu | nn.gelu)(x)   y: nn.relu, f32[1, 17, 6, 6]
        2:20        ✓ x                          d: add, f32[1, 17, 6, 6]
        5:7           ✓ s = add?(k, b)           d: add, f32[1, 17, 6, 6]        operands swapped
                        ✗ operands as written                                    `b` is a constant, not nn.conv2d
        4:7             ✓ k = nn.conv2d(x, w)    c: nn.conv2d, f32[1, 17, 6, 6]
        4:24              ✓ groups == 1                                          groups is 1
        3:15              ✓ x                    x: input, f32[1, 16, 8, 8]
        3:18              ✓ w: const             w: constant, f32[17, 16, 3, 3]
        3:28            ✓ b?: const              b: constant, f32[17, 1, 1]
        7:9     ✗ where dim(w, 0) % 16 == 0                                      dim(w, 0) is 17  <- the reason
        8:9     ✗ where dtype(x) in [f16, bf16]                                  dtype(x) is f32
        """)  # fmt: skip  # noqa: E501


def test_an_optional_operator_that_is_absent_is_shown_as_such() -> None:
    graph = "x: f32[1,16,8,8]; w = const f32[17,16,3,3]; c = nn.conv2d(x, w); return c;"
    shown = str(why(block(), parse_graph(graph), at="c"))

    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "5:7 ✓ s = add?(k, b) c: nn.conv2d, f32[1, 17, 6, 6] absent" in lines


def test_a_match_is_shown_with_what_is_bound() -> None:
    text = "pattern p(x, w: const) { k = nn.conv2d(x, w); y = nn.relu(k); yield y; }"
    document = answer(text, CONV)

    assert (document.because, document.place, document.held) == ("", None, document.parts)
    assert [(match.nodes, match.constants) for match in document.matches] == [(["c", "y"], ["w"])]
    assert str(document).startswith(
        "p matches at `y` (nn.relu, f32[1, 17, 6, 6]) of g\n"
        "  nodes c, y, constants w (k is c, w is w, x is x, y is y)\n"
    )
    assert "✗" not in str(document)


def test_there_is_no_answer_about_a_node_that_is_not_there() -> None:
    with pytest.raises(KeyError):
        answer("pattern p(x) { y = nn.relu(x); yield y; }", RELU, at="z")


# Size.


def test_a_deep_pattern_keeps_its_reason_and_a_depth_that_json_readers_take() -> None:
    depth = 98
    text = "pattern p(x) { y = " + "nn.relu(" * depth + "exp(x)" + ")" * depth + "; yield y; }"
    calls = "".join(f"a{n + 1} = nn.relu({f'a{n}' if n else 'x'}); " for n in range(depth))
    document = answer(text, f"x: f32[4]; {calls} return a{depth};", at=f"a{depth}")

    assert (document.because, document.is_complete) == ("`x` is an input, not exp", False)
    assert document == WhyDocument.model_validate_json(document.model_dump_json())


def test_what_is_shown_is_bounded_and_says_what_is_left_out() -> None:
    names = [f"t{n}" for n in range(120)]
    calls = " ".join(f"{name} = tanh(r);" for name in names)
    graph = f"x: f32[4]; r = nn.relu(x); y = exp(r); {calls} return y, {', '.join(names)};"
    text = "pattern p(x) { r = nn.relu(x); y = exp(r); s = sqrt(r); yield y, s; }"
    document = answer(text, graph)

    assert "refused at 119 more nodes" in str(document)
    chain = "pattern p(x) { y = " + "add(" * 40 + "exp(x)" + ", _)" * 40 + "; yield y; }"
    sums = "".join(f"a{n + 1} = add({f'a{n}' if n else 'x'}, x); " for n in range(40))
    shown = str(answer(chain, f"x: f32[4]; {sums} return a40;", at="a40"))
    assert len(shown.splitlines()) <= MOST_LINES + 8
    assert "more lines: the answer as JSON has all" in shown
    assert marked(shown)


def test_an_attempt_of_very_many_steps_is_recorded_up_to_a_limit() -> None:
    names = ["x"] * 2**11
    lines = []
    for level in range(11):
        pairs = zip(names[::2], names[1::2], strict=True)
        names = []
        for at, (left, right) in enumerate(pairs):
            lines.append(f"n{level}_{at} = add({left}, {right});")
            names.append(f"n{level}_{at}")
    graph = parse_graph(f"x: f32[4]; {' '.join(lines)} return {names[0]};")
    text = "pattern p(x) { y = " + "add(" * 11 + "exp(x)" + ", _)" * 11 + "; yield y; }"

    explanation = explain(pattern(text), graph, graph.index(names[0]))
    document = why(pattern(text), graph, at=names[0])

    def size(step: StepDocument) -> int:
        return 1 + sum(size(part) for way in step.ways for part in way.steps)

    assert not explanation.is_complete
    assert size(document.tried) <= MOST_STEPS + 1
    assert document.because == "`x` is an input, not exp"


# Near.


def test_the_nearest_misses_come_first_and_ties_in_graph_order() -> None:
    graph = parse_graph(
        "x: f32[4]; a = exp(x); b = nn.relu(x); y = nn.relu(a); z = nn.relu(y); t = tanh(z);"
        "r = nn.relu(t); return t, b, r;"
    )
    text = (
        "pattern p(x) { e = exp(x); y = nn.relu(e); where rank(x) == 2 and dtype(x) == f32;"
        " where dtype(x) == f32; yield y; }"
    )
    document = near(pattern(text), graph)

    assert document.matched == []
    assert [(m.node.name, m.held, m.parts) for m in document.misses] == [
        ("y", 3, 4),
        ("b", 1, 4),
        ("z", 1, 4),
        ("r", 1, 4),
    ]
    assert (document.farther, document.apart) == (0, 2)
    assert document.misses[0].because == "`rank(x) == 2 and dtype(x) == f32` does not hold (at `y`)"
    assert [fact.value for fact in document.misses[0].facts] == ["1", "f32"]
    assert document == NearDocument.model_validate_json(document.model_dump_json())
    assert [m.node.name for m in near(pattern(text), graph, top=2).misses] == ["y", "b"]
    assert near(pattern(text), graph, top=2).farther == 2


def test_near_counts_matches_and_says_so_where_there_are_only_these() -> None:
    text = "pattern p(x) { y = nn.relu(x); yield y; }"

    assert str(near(pattern(text), parse_graph(RELU, "g"))) == (
        "p matches at 1 node of g; no part of it holds at another node\n"
    )


def test_near_is_a_table() -> None:
    assert str(near(block(), block_graph(16), top=2)) == dedent("""\
        block matches at 0 nodes of g; where it nearly does:

        held  node  operator  where          why not
        7/8   y     nn.relu   p.collage:8:9  `dtype(x) in [f16, bf16]` does not hold (at `y`): dtype(x) is f32
        6/7   d     add       p.collage:8:9  `dtype(x) in [f16, bf16]` does not hold (at `d`): dtype(x) is f32

        at 1 more node, a part of it holds
        """)  # fmt: skip  # noqa: E501


@pytest.mark.parametrize(("text", "graph", "said", "line"), KINDS)
def test_not_all_parts_hold_where_nothing_matches(
    text: str, graph: str, said: str, line: str
) -> None:
    parsed = parse_graph(graph)
    share = share_of(explain(pattern(text), parsed, parsed.index("y")))

    assert 0 <= share.held < share.of


def test_a_part_is_shown_as_a_spec_has_it() -> None:
    calls = Repeat(Call(("split",), (Reference("x"),)), 1, 2)

    assert operand_text(FieldOf(calls, 0)) == "(repeat[1..2] split(x)).0"
    assert operand_text(Number(0.7, 0.01)) == "~0.7 within 0.01"
    assert operand_text(Number(0.7, TOLERANCE)) == "~0.7"
