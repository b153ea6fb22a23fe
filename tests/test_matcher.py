"""What patterns match, on graphs in the text notation."""

import pytest

from collage_dsl.graph import Graph
from collage_dsl.language import load, parse_graph
from collage_dsl.rules import DFPattern, Pattern
from collage_dsl.rules.matcher import Attempt, matches

CONV_BLOCK = """
  pattern p(x, w: const, b?: const, r?) {
    k = nn.conv2d(x, w) [groups == 1, data_layout == "NCHW"];
    s = add?(k, b);
    t = add?(s, r);
    y = (nn.relu | nn.gelu)?(t);
    where not has(b) or rank(b) == 3 else "a bias has three dimensions";
    yield y;
  }"""
IMAGE = "x: f32[1,16,8,8]; w = const f32[16,16,3,3]; b = const f32[16,1,1];"


def pattern(text: str) -> Pattern:
    rule = load(text=f"collage 1; {text} target t on llvm {{ rules dfpattern(p); }}")["t"].rule
    assert isinstance(rule, DFPattern)
    return rule.pattern


def matched(text: str, graph: Graph | str, at: str) -> list[set[str]]:
    """The names inside each match at the node `at`."""
    graph = parse_graph(graph) if isinstance(graph, str) else graph
    found = matches(pattern(text), graph, graph.index(at), Attempt())
    return [set(graph.names(match.inside)) for match in found]


def reason(text: str, graph: str, at: str) -> str:
    """Why there is no match at the node `at`."""
    attempt, parsed = Attempt(), parse_graph(graph)
    assert not matches(pattern(text), parsed, parsed.index(at), attempt)
    return attempt.because


@pytest.mark.parametrize("added", ["add(c, b)", "add(b, c)"])
def test_the_operands_of_an_addition_match_in_either_order(added: str) -> None:
    graph = f"{IMAGE} c = nn.conv2d(x, w); d = {added}; y = nn.relu(d); return y;"

    assert matched(CONV_BLOCK, graph, "y") == [{"c", "d", "y"}]


def test_those_of_a_subtraction_do_not() -> None:
    text = "pattern p(x) { y = subtract(nn.relu(x), _); yield y; }"

    assert matched(text, "a: f32[4]; r = nn.relu(a); y = subtract(r, a); return y;", "y")
    assert not matched(text, "a: f32[4]; r = nn.relu(a); y = subtract(a, r); return y;", "y")


@pytest.mark.parametrize(
    ("nodes", "inside"),
    [
        ("y = nn.conv2d(x, w);", {"y"}),
        ("c = nn.conv2d(x, w); y = nn.gelu(c);", {"c", "y"}),
        ("c = nn.conv2d(x, w); y = add(c, b);", {"c", "y"}),
        ("c = nn.conv2d(x, w) [padding = 1]; d = add(c, b); y = add(d, x);", {"c", "d", "y"}),
        (
            "c = nn.conv2d(x, w) [padding = 1]; d = add(c, b); e = add(x, d); y = nn.relu(e);",
            set("cdey"),
        ),
    ],
)
def test_optional_nodes_may_be_there_or_not(nodes: str, inside: set[str]) -> None:
    assert matched(CONV_BLOCK, f"{IMAGE} {nodes} return y;", "y") == [inside]


def test_an_addition_that_is_no_bias_is_the_residual() -> None:
    graph = parse_graph(f"{IMAGE} c = nn.conv2d(x, w) [padding = 1]; y = add(c, x); return y;")
    (match,) = matches(pattern(CONV_BLOCK), graph, graph.index("y"), Attempt())

    assert match.bound["r"] == graph.index("x")
    assert "b" not in match.bound


def test_constants_are_bound_only_where_the_pattern_says_so() -> None:
    graph = parse_graph(f"{IMAGE} c = nn.conv2d(x, w); y = add(c, b); return y;")
    (match,) = matches(pattern(CONV_BLOCK), graph, graph.index("y"), Attempt())

    assert graph.names(match.constants) == {"w", "b"}


def test_a_constant_parameter_takes_no_other_value() -> None:
    graph = "x: f32[1,16,8,8]; v: f32[16,16,3,3]; y = nn.conv2d(x, v); return y;"

    assert reason(CONV_BLOCK, graph, "y") == "`v` is not a constant, as `w` must be"


def test_has_asks_whether_an_optional_operand_is_there() -> None:
    text = """
      pattern p(x, b?) {
        k = nn.relu(x); y = add?(k, b);
        where has(b) else "no bias";
        yield y;
      }"""

    assert matched(text, "a: f32[4]; r = nn.relu(a); y = add(r, a); return y;", "y")
    assert reason(text, "a: f32[4]; y = nn.relu(a); return y;", "y") == "no bias (at `y`)"


def test_a_condition_gives_its_reason() -> None:
    graph = f"{IMAGE} c4 = const f32[1,16,1,1]; c = nn.conv2d(x, w); y = add(c, c4); return y;"
    text = CONV_BLOCK.replace("rank(b) == 3", "rank(b) == 3 and has(b)").replace(", r?", "")
    text = text.replace("t = add?(s, r);", "").replace("?(t)", "?(s)")

    assert reason(text, graph, "y") == "a bias has three dimensions (at `y`)"


def test_a_condition_without_a_reason_is_quoted() -> None:
    text = "pattern p(x) { y = nn.relu(x); where dim(x, -1) % 16 == 0; yield y; }"
    because = reason(text, "a: f32[4, 8]; y = nn.relu(a); return y;", "y")

    assert because == "`dim(x, -1) % 16 == 0` does not hold (at `y`)"


@pytest.mark.parametrize(
    ("condition", "because"),
    [
        ("dtype(x) in [f32, bf16]", "not this one (at `y`)"),
        ("rank(x) == 4", "not this one (at `y`)"),
        ("dim(x, 1) == 64", "not this one (at `y`)"),
        ("dim(x, 0) == 1", "not this one: unknown at `y`"),
        ("dim(x, 5) == 1", "not this one: unknown at `y`"),
    ],
)
def test_conditions_on_dtype_rank_and_dimensions(condition: str, because: str) -> None:
    text = f'pattern p(x) {{ y = nn.relu(x); where {condition} else "not this one"; yield y; }}'

    assert reason(text, "a: f16[n, 63]; y = nn.relu(a); return y;", "y") == because


@pytest.mark.parametrize(
    ("attributes", "matching"),
    [
        ("", True),
        ("[groups = 16]", False),
        ('[data_layout = "NHWC", kernel_layout = "OHWI"]', False),
        ("[strides = [2, 2], padding = 1]", True),
    ],
)
def test_attributes_are_compared_with_defaults_filled_in(attributes: str, matching: bool) -> None:
    shapes = "x: f32[1,16,16,16]; w = const f32[16,16,3,3];"
    if "NHWC" in attributes:
        shapes = "x: f32[1,16,16,16]; w = const f32[16,3,3,16];"
    if "groups" in attributes:
        shapes = "x: f32[1,16,16,16]; w = const f32[16,1,3,3];"
    graph = f"{shapes} y = nn.conv2d(x, w) {attributes}; return y;"

    assert bool(matched(CONV_BLOCK, graph, "y")) is matching


def test_the_place_of_a_refused_attribute_is_known() -> None:
    graph = parse_graph("x: f32[4]; y = nn.softmax(x) [axis = 0]; return y;")
    attempt = Attempt()
    matches(
        pattern("pattern p(x) { y = nn.softmax(x) [axis == -1]; yield y; }"),
        graph,
        graph.index("y"),
        attempt,
    )

    assert attempt.because == "`axis == -1` does not hold (at `y`)"
    assert attempt.span is not None
    assert attempt.span.text == "axis == -1"


def test_an_inner_value_that_is_used_outside_is_no_match() -> None:
    graph = f"{IMAGE} c = nn.conv2d(x, w); y = nn.relu(c); z = exp(c); return y, z;"

    assert reason(CONV_BLOCK, graph, "y") == "`c` is used outside the match too"
    assert matched(CONV_BLOCK, graph, "c") == [{"c"}]


def test_an_inner_value_that_is_returned_is_no_match() -> None:
    graph = f"{IMAGE} c = nn.conv2d(x, w); y = nn.relu(c); return y, c;"

    assert reason(CONV_BLOCK, graph, "y") == "`c` is used outside the match too"


def test_each_alternative_matches() -> None:
    text = "pattern p(x) { y = (nn.relu | nn.gelu | sigmoid)(x); yield y; }"
    graph = "a: f32[4]; r = nn.relu(a); g = nn.gelu(r); s = sigmoid(g); e = exp(s); return e;"

    assert [matched(text, graph, name) for name in "rgs"] == [[{"r"}], [{"g"}], [{"s"}]]
    assert reason(text, graph, "e") == "`e` is a call of exp, not nn.relu | nn.gelu | sigmoid"


def test_a_name_stands_for_one_value() -> None:
    text = "pattern p(x) { s = sigmoid(x); y = multiply(x, s); yield y; }"

    assert matched(text, "a: f32[4]; s = sigmoid(a); y = multiply(s, a); return y;", "y") == [
        {"s", "y"}
    ]
    because = reason(
        text, "a: f32[4]; b: f32[4]; s = sigmoid(a); y = multiply(b, s); return y;", "y"
    )
    assert because == "`x` is `b` already and cannot be `a` too"


def test_a_value_that_is_used_twice_inside_is_inside_once() -> None:
    text = "pattern p(x) { r = nn.relu(x); y = add(r, exp(r)); yield y; }"
    graph = "a: f32[4]; r = nn.relu(a); e = exp(r); y = add(e, r); return y;"

    assert matched(text, graph, "y") == [{"r", "e", "y"}]


def test_an_operand_may_be_anything() -> None:
    text = "pattern p(x) { y = reshape(nn.relu(x), _); yield y; }"
    graph = "a: f32[4]; r = nn.relu(a); y = reshape(r, [2, 2]); return y;"

    assert matched(text, graph, "y") == [{"r", "y"}]


@pytest.mark.parametrize(
    ("number", "constant", "matching"),
    [
        ("0.5", "f32[] 0.5", True),
        ("0.5", "f32[4] 0.5", True),
        ("0.5", "f32[2] [0.5, 0.6]", False),
        ("0.5", "f32[] 0.500001", False),
        ("~0.5", "f32[] 0.500001", True),
        ("0.1", "f32[] 0.1", True),
        ("0.1", "f16[] 0.1", True),
        ("~0.7071", "f32[] 0.70710678", True),
        ("~0.7", "f32[] 0.70710678", False),
        ("-2", "i64[] -2", True),
        ("0.5", "i64[] 0", False),
    ],
)
def test_numbers_match_constants_of_that_value(number: str, constant: str, matching: bool) -> None:
    text = f"pattern p(x) {{ y = multiply(x, {number}); yield y; }}"
    dtype = constant.partition("[")[0]
    graph = f"a: {dtype}[4]; c = const {constant}; y = multiply(a, c); return y;"
    if "[2]" in constant:
        graph = graph.replace(f"{dtype}[4]", f"{dtype}[2]")

    assert bool(matched(text, graph, "y")) is matching


def test_numbers_match_literals_too() -> None:
    text = "pattern p(x) { y = clip(x, 0, 6); yield y; }"

    assert matched(text, "a: f32[4]; y = clip(a, 0.0, 6.0); return y;", "y") == [{"y"}]
    assert reason(text, "a: f32[4]; y = clip(a, 0.0, 5.0); return y;", "y") == "`y.max` is 5, not 6"


def test_a_constant_without_a_value_is_no_number() -> None:
    text = "pattern p(x) { y = multiply(x, 0.5); yield y; }"
    graph = "a: f32[4]; c = const f32[]; y = multiply(a, c); return y;"

    assert reason(text, graph, "y") in (
        "the value of `c` is not known",
        "`a` is not a constant",
    )


def test_matches_that_overlap_are_all_found() -> None:
    text = "pattern p(x, z) { y = add(nn.relu(x), z); yield y; }"
    graph = "a: f32[4]; r = nn.relu(a); s = nn.relu(a); y = add(r, s); return y;"

    assert sorted(map(sorted, matched(text, graph, "y"))) == [["r", "y"], ["s", "y"]]


# Classes, and patterns that call patterns.

ACTIVATION = """
  let act = one_of(nn.relu, nn.silu);
  pattern activation(x) { y = act(x); where rank(x) == 2 else "matrices only"; yield y; }
  pattern bias(x, b: const) { y = add(x, b); yield y; }
  pattern p(x, w, b?) { m = matmul(x, w); y = activation?(bias?(m, b)); yield y; }"""
MATRICES = "x: f32[4,8]; w: f32[8,8]; b = const f32[8]; m = matmul(x, w);"


@pytest.mark.parametrize(
    ("nodes", "inside"),
    [
        ("y = nn.silu(m);", {"m", "y"}),
        ("s = add(m, b); y = nn.relu(s);", {"m", "s", "y"}),
        ("s = add(b, m); y = nn.relu(s);", {"m", "s", "y"}),
        ("y = add(m, b);", {"m", "y"}),
    ],
)
def test_what_a_called_pattern_covers_is_part_of_the_match(nodes: str, inside: set[str]) -> None:
    assert matched(ACTIVATION, f"{MATRICES} {nodes} return y;", "y") == [inside]


def test_constants_of_a_called_pattern_are_bound() -> None:
    graph = parse_graph(f"{MATRICES} s = add(m, b); y = nn.relu(s); return y;")
    (match,) = matches(pattern(ACTIVATION), graph, graph.index("y"), Attempt())

    assert graph.names(match.constants) == {"b"}
    assert set(match.bound) == {"x", "w", "b", "m", "y"}


def test_the_conditions_of_a_called_pattern_hold_too() -> None:
    graph = "x: f32[1,4,8]; w: f32[8,8]; m = matmul(x, w); y = nn.relu(m); return y;"

    assert reason(ACTIVATION, graph, "y") == "matrices only (at `y`)"


def test_two_calls_of_a_pattern_have_names_of_their_own() -> None:
    text = """
      pattern f(x) { y = nn.relu(x); yield y; }
      pattern p(x, z) { y = maximum(f(x), f(z)); yield y; }"""

    both = "a: f32[4]; b: f32[4]; r = nn.relu(a); s = nn.relu(b); y = maximum(r, s); return y;"
    same = "a: f32[4]; r = nn.relu(a); y = maximum(r, r); return y;"
    assert matched(text, both, "y") == [{"r", "s", "y"}]
    assert matched(text, same, "y") == [{"r", "y"}]


def test_a_parameter_used_twice_in_a_called_pattern_is_one_value() -> None:
    text = """
      pattern swish(x) { y = multiply(x, sigmoid(x)); yield y; }
      pattern p(x) { y = swish(exp(x)); yield y; }"""

    graph = "a: f32[4]; e = exp(a); s = sigmoid(e); y = multiply(e, s); return y;"
    other = "a: f32[4]; e = exp(a); s = sigmoid(a); y = multiply(e, s); return y;"
    assert matched(text, graph, "y") == [{"e", "s", "y"}]
    assert not matched(text, other, "y")


# Anchors.


def test_a_match_knows_its_anchor() -> None:
    text = """
      pattern p(x, w, b?) {
        k = (matmul(x, w) | multiply(x, w)); y = nn.relu(add?(k, b)); anchor k; yield y;
      }"""
    graph = parse_graph(f"{MATRICES} s = add(m, b); y = nn.relu(s); return y;")
    (match,) = matches(pattern(text), graph, graph.index("y"), Attempt())

    assert match.anchor == graph.index("m")


def test_a_pattern_without_an_anchor_has_none() -> None:
    graph = parse_graph(f"{MATRICES} y = nn.relu(m); return y;")
    (match,) = matches(pattern(ACTIVATION), graph, graph.index("y"), Attempt())

    assert match.anchor is None


def test_attributes_in_a_called_pattern_are_compared_with_its_own_names() -> None:
    text = """
      pattern f(a) { y = nn.softmax(a) [axis < rank(a) - 1]; yield y; }
      pattern p(a, b) { y = add(f(b), a); yield y; }"""
    graph = "a: f32[4]; b: f32[4,4]; s = nn.softmax(b) [axis = %d]; y = add(s, a); return y;"

    assert matched(text, graph % 0, "y") == [{"s", "y"}]
    assert reason(text, graph % 1, "y") == "`axis < rank(a) - 1` does not hold (at `s`)"


def test_a_wide_tuple_is_refused_at_once_though_its_fields_match_in_many_ways() -> None:
    fields = [f"e{at} = exp(x); r{at} = nn.relu(e{at});" for at in range(60)]
    names = ", ".join(f"r{at}" for at in range(60))
    graph = f"x: f32[4]; {' '.join(fields)} z = tanh(x); t = ({names}, z); y = concat(t); return y;"
    text = "pattern p() { y = concat(each[2..99] (nn.relu(exp(_)) | nn.relu(_))); yield y; }"
    attempt, parsed = Attempt(), parse_graph(graph)

    assert not matches(pattern(text), parsed, parsed.index("y"), attempt)
    assert attempt.because == "`z` is a call of tanh, not nn.relu"
    assert not attempt.stopped


LAYERS = """
  pattern dense(x, w: const) {
    y = nn.relu(matmul(x, w));
    where dim(w, 1) == 4 else "four wide";
    yield y;
  }
  pattern p(x) { y = repeat[2..3] dense(x, _); yield y; }"""


def layers(*widths: int) -> str:
    """A chain of dense layers with these widths, each with a weight of its own."""
    before, text = 4, "x: f32[4,4]; y0 = nn.relu(x);"
    for at, width in enumerate(widths, 1):
        text += f"w{at} = const f32[{before},{width}]; m{at} = matmul(y{at - 1}, w{at});"
        text += f"y{at} = nn.relu(m{at});"
        before = width
    return f"{text} return y{len(widths)};"


def test_each_repetition_of_a_pattern_binds_constants_of_its_own() -> None:
    graph = parse_graph(layers(4, 4, 4))
    found = matches(pattern(LAYERS), graph, graph.index("y3"))

    assert [set(graph.names(match.constants)) for match in found] == [
        {"w1", "w2", "w3"},
        {"w2", "w3"},
    ]


def test_the_conditions_of_a_repeated_pattern_hold_for_each_repetition() -> None:
    assert matched(LAYERS, layers(8, 4, 4), "y3") == [{"m2", "y2", "m3", "y3"}]
    assert not matched(LAYERS, layers(4, 8, 4), "y3")
    assert reason(LAYERS, layers(4, 4, 8), "y3") == "four wide (at `y3`)"


def test_a_name_in_a_repetition_is_the_same_value_each_time() -> None:
    text = LAYERS.replace("p(x)", "p(x, w: const)").replace("dense(x, _)", "dense(x, w)")

    assert not matched(text, layers(4, 4), "y2")
