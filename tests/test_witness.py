"""A graph is found for each pattern that `collage check` accepts, and the pattern matches it."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import settings

from collage_dsl.engine.testing import run_tests
from collage_dsl.language import parse_graph
from collage_dsl.language.loading import check, load_contents, patterns
from collage_dsl.rules.condition import Constant, Expression, Holds, rebuilt
from collage_dsl.rules.matcher import matches
from collage_dsl.rules.pattern import Operand, Pattern, PatternCall
from collage_dsl.source import Source
from collage_dsl.witness.example import Example, NoExampleError, example
from tests.cases import ASKED, sample
from tests.commands import said
from tests.random_texts import text_of

ROOT = Path(__file__).parent.parent
SPECS = sorted((ROOT / "specs").rglob("*.collage"))
PAGE = re.findall(
    r"```collage\n(.*?)```", (ROOT / "docs" / "language.md").read_text("utf-8"), re.DOTALL
)


def one(text: str) -> Pattern:
    (pattern,) = patterns(text=f"collage 1;\n{text}\n").values()
    return pattern


def is_matched(pattern: Pattern, found: Example) -> bool:
    """Whether the text of the example is a graph that the pattern matches, as it says."""
    graph = parse_graph(str(found))
    inside = [graph.names(match.inside) for match in matches(pattern, graph, graph.index(found.at))]
    return found.nodes in inside


def unasked(pattern: Pattern) -> Pattern:
    """`pattern` with all predicates of the host answered by yes."""
    return replace(
        pattern,
        conditions=tuple(replace(w, condition=_yes(w.condition)) for w in pattern.conditions),
        bindings=tuple(replace(b, value=_unasked(b.value)) for b in pattern.bindings),
    )


def _unasked(operand: Operand) -> Operand:
    if isinstance(operand, PatternCall):
        return replace(
            operand,
            pattern=unasked(operand.pattern),
            operands=tuple(map(_unasked, operand.operands)),
        )
    return operand


def _yes(expression: Expression) -> Expression:
    if isinstance(expression, Holds):
        return Constant(True)
    return rebuilt(expression, _yes)


NONE_KNOWN = re.compile(r"clml_relu_(tuple|bn)_|cutlass_stacked_attention_2$")
"""
Patterns of TVM's own tables without an example: those of CLML take a field of the result of a
convolution, which is no tuple, or the activation of a batch normalization, which is one; in the
other one three reshapes have to agree, which is not found.
"""


@pytest.mark.parametrize("path", sample(3, SPECS), ids=lambda path: path.stem)
def test_every_pattern_of_a_shipped_spec_has_an_example(path: Path) -> None:
    for pattern in patterns(path).values():
        if NONE_KNOWN.match(pattern.name):
            continue
        without_host = unasked(pattern)
        assert is_matched(without_host, example(without_host)), pattern.name


@pytest.mark.parametrize("text", sample(3, PAGE))
def test_every_pattern_of_the_page_on_the_language_has_an_example(text: str) -> None:
    for pattern in patterns(text=text).values():
        without_host = unasked(pattern)
        assert is_matched(without_host, example(without_host)), pattern.name


MOST_WITHOUT, MOST_OF_NO_KIND = 0.02, 0.005
"""
The largest share of the random patterns that may have no example, and of those that have none and
are of no kind that docs/example.md states. Some of them can never match.
"""

STATED = {
    "by kind": r"\b(?:elementwise|broadcast|injective|reduce|anchor|opaque)\b",
    "uses": r"\buses\(",
    "windows": r"\bnn\.\w*(?:conv|pool)\dd",
    "elements": r"\b(?:all|value|min|max)\(",
    "lists": r"\[\*\]",
    "arithmetic": r"\bdim\([^=<>%]* [-+*] ",
}
"""Kinds of patterns for which an example may be missed, and what is written in them."""


@pytest.mark.properties
def test_nearly_every_random_pattern_that_is_accepted_has_an_example() -> None:
    asked = settings.get_current_profile_name() == ASKED
    counts: Counter[str] = Counter()
    for seed in range(settings().max_examples if asked else 60):
        text = text_of(Random(seed))
        if check(Source("random", text)):
            counts["refused"] += 1
            continue
        pattern = patterns(text=text)["p"]
        try:
            found = example(pattern)
        except NoExampleError:
            counts["without"] += 1
            counts["of no kind"] += not any(re.search(kind, text) for kind in STATED.values())
        else:
            counts["with"] += 1
            assert is_matched(pattern, found), text

    assert counts["with"] > counts["refused"]
    accepted = counts["with"] + counts["without"]
    assert counts["without"] <= MOST_WITHOUT * accepted + 1
    assert counts["of no kind"] <= MOST_OF_NO_KIND * accepted + 1


@pytest.mark.parametrize(
    "text",
    [
        (
            "pattern p(x, w: const) { y = nn.conv2d(x, w) [groups == 4, strides[*] > 1]; "
            "where dim(w, 0) % 48 == 0; yield y; }"
        ),
        "pattern p(x) { y = permute_dims(x) [axes[0] == 2]; where size(x) > 5000; yield y; }",
        "pattern p(x) { y = broadcast(x, _); where uses(x) == 3; yield y; }",
        "pattern p(x, b?) { y = add?(exp(x), b); where not has(b); yield y; }",
        (
            "pattern p(s: const, t: const) { y = multiply(s, t); "
            "where value(s) == value(t) * 2 + 1; yield y; }"
        ),
        "pattern p(c: const) { y = exp(c); where min(c) == -3 and max(c) == 4; yield y; }",
        "pattern p(x) { y = concat(each[3..4] nn.relu(x)); yield y; }",
        "pattern p(x) { s = split(x); y = add(s.0, s.2); yield y; }",
        "pattern p(x, b) { y = stack((add(x, b), 0)); where dim(x, 1) == dim(y, 2) * 8; yield y; }",
        "pattern p(x) { y = strided_slice(x, _, _, _); where dim(y, -1) / 4 == 48; yield y; }",
        "pattern p(x: [4]) { y = expand_dims(x); where dim(x, -1) > dim(y, 2); yield y; }",
        "pattern p(x: [2, .., k]) { y = broadcast_to(x, _); where size(y) == 4096; yield y; }",
        "pattern p(x) { y = broadcast(x, x); where size(y) > 64; yield y; }",
        "pattern p(x) { y = add(add(x, _), _); where uses(x) == 2; yield y; }",
        "pattern p(m, x) { y = where(m, x, m); where dtype(x) == f32; yield y; }",
        "pattern p(x) { y = onnx.EyeLike(x); where dtype(x) != dtype(y); yield y; }",
        "pattern p(x) { y = exp(x); where dim(y, 1) + dim(y, 2) == 3 and size(y) > 99; yield y; }",
        (
            "pattern p(x) { r = reshape(x, _); y = exp(r); where rank(r) == 3 and dim(r, 1) == 6; "
            "yield y; }"
        ),
        "pattern p(x, s) { q = onnx.DynamicQuantizeLinear(x); y = multiply(q.1, s); yield y; }",
        "pattern p(x, k) { t = onnx.TopK(x, k); y = exp(t.0); yield y; }",
        "pattern p(x: [1, 4]) { y = nn.pad(x); where dim(y, 0) == 1 and dim(y, 1) == 8; yield y; }",
        "pattern p(x: [n]) { y = add(x, arange(0, _, 1) [dtype == i64]); yield y; }",
        "pattern p(x: [n, m], s: [k, m]) { y = slice_scatter(x, s, 0, _, 1); yield y; }",
        'pattern p(x) { y = call_tir(x) [function == "f"]; where dtype(y) == i8; yield y; }',
        "pattern p(x) { y = sort(x); where rank(x) == 0; yield y; }",
        "pattern p(x) { y = argsort(x) [axis == -1]; where rank(x) == 0; yield y; }",
        "pattern p(x) { y = multiply(x, 0.5, 4) flat; where dtype(x) == i32; yield y; }",
        "pattern p(x) { y = add(x, 0.5, 0.5) flat; where dtype(x) == i64; yield y; }",
        "pattern p(x) { y = multiply(x, -1) flat; where dtype(x) == u8; yield y; }",
        "pattern p(x) { y = add(x, -1) flat; where dtype(x) == u8; yield y; }",
        (
            "pattern p(q, k, mask: const & [t, t]) { "
            "s = matmul(q, permute_dims(k) [axes == [0, 1, 3, 2]]); y = add(s, mask); "
            "where all(mask == 0 or place(mask, 1) > place(mask, 0)); "
            "where all(mask < -10000 or place(mask, -1) <= place(mask, -2)); yield y; }"
        ),
    ],
)
def test_what_has_to_be_found_together_is_found(text: str) -> None:
    pattern = one(text)

    assert is_matched(pattern, example(pattern))


def test_the_same_pattern_has_the_same_example() -> None:
    pattern = one("pattern p(x, w) { y = matmul(x, w); where dim(y, 0) > 9; yield y; }")

    assert str(example(pattern)) == str(example(pattern))


def test_names_are_those_of_the_pattern() -> None:
    pattern = one("pattern p(left, right: const) { total = add(left, right); yield total; }")

    assert example(pattern).at == "total"
    assert "right = const f32" in str(example(pattern))


def test_a_predicate_is_not_answered() -> None:
    text = (
        'extern predicate fits(x) from "a:b"; pattern p(x) { y = exp(x); where fits(x); yield y; }'
    )

    with pytest.raises(NoExampleError, match="asks an extern predicate"):
        example(one(text))


def test_a_pattern_that_never_matches_has_no_example() -> None:
    """The checker does not know that no two squares differ by 6."""
    pattern = one("pattern p(x: [n, m]) { y = exp(x); where n * n - m * m == 6; yield y; }")

    with pytest.raises(NoExampleError, match="no graph was found"):
        example(pattern)


FILE = """\
collage 1;

pattern block(x, w: const) {
  y = nn.relu(matmul(x, w));
  yield y;
}
"""


@pytest.mark.parametrize(
    "value", ["nn.relu(matmul(x, w))", "concat((exp(x), tanh(w)))", "add(split(x).1, w)"]
)
def test_the_command_shows_a_test_that_passes(tmp_path: Path, value: str) -> None:
    """`nodes` counts neither tuples nor projections."""
    path, text = tmp_path / "a.collage", FILE.replace("nn.relu(matmul(x, w))", value)
    path.write_text(text, "utf-8")

    done = said("example", path)

    assert done.code == 0
    (outcome,) = run_tests(load_contents(Source("a.collage", f"{text}\n{done.out}")))
    assert outcome.passed


def test_the_command_answers_in_json(tmp_path: Path) -> None:
    path = tmp_path / "a.collage"
    path.write_text(FILE, "utf-8")

    answer = json.loads(said("example", f"{path}#block", "--output-format", "json").out)

    assert answer["pattern"] == "block"
    assert len(answer["nodes"]) == 2
    assert answer["graph"] in answer["test"].replace("\n  ", "\n")


def test_where_there_is_no_example_the_command_fails(tmp_path: Path) -> None:
    path = tmp_path / "a.collage"
    predicate = 'extern predicate fits(x) from "a:b";\n'
    path.write_text(
        f"collage 1;\n{predicate}pattern p(x) {{ y = exp(x); where fits(x); yield y; }}", "utf-8"
    )

    done = said("example", path)

    assert done.code == 1
    assert "extern predicate" in done.err
