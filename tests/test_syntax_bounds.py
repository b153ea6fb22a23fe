"""Bounds of what is read, what an error covers, and what numbers and parentheses stand for."""

import pytest

from collage_dsl.diagnostics import RuleError
from collage_dsl.graph.operators import operators
from collage_dsl.language import check, load, parse_graph, to_text
from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.syntax import ast, parser, tokens
from collage_dsl.language.syntax.parser import parse_file
from collage_dsl.language.syntax.whole_text import MAX_CHARACTERS
from collage_dsl.source import Source
from tests.test_checked_specs import pattern


def shown(text: str) -> str:
    return "\n\n".join(map(str, check(Source("t.collage", text))))


def codes(text: str) -> list[str]:
    return [diagnostic.code for diagnostic in check(Source("t.collage", text))]


def covered(text: str) -> list[str]:
    """What each diagnostic is about: all of it, where only the first line is shown."""
    return [diagnostic.span.text for diagnostic in check(Source("t.collage", text))]


# Sizes.


def test_a_text_of_128_kibibytes_is_read() -> None:
    text = "collage 1;\n#".ljust(MAX_CHARACTERS - 1, "-") + "\n"

    assert shown(text) == ""
    assert shown(text + "#") == (
        "t.collage:3:1: error[E0106]: the text is longer than 128 KiB\n"
        "3 | #\n"
        "    ^\n"
        "help: split it into several files"
    )


def test_words_and_signs_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    ten = "collage 1;  # comments are none\nlet a = one_of();"

    monkeypatch.setattr(parser, "MAX_TOKENS", 10)
    assert "E0106" not in codes(ten)
    monkeypatch.setattr(parser, "MAX_TOKENS", 9)
    assert shown(ten) == (
        "t.collage:2:17: error[E0106]: the text has more than 9 words and signs\n"
        "2 | let a = one_of();\n"
        "                    ^\n"
        "help: split it into several files"
    )


def test_a_graph_has_as_many_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser, "MAX_TOKENS", 5)

    with pytest.raises(RuleError) as caught:
        parse_graph("x: f32[4]; return x;")
    assert [found.code for found in caught.value.diagnostics] == ["E0106"]


def test_a_list_has_two_hundred_items() -> None:
    def ops(count: int) -> str:
        staying = sorted(name for name, each in operators().items() if each.form is None)
        names = ", ".join(staying[:count])
        return f"rule a = op_predicate(fits, ops: [{names}]);"

    text = 'collage 1;\nextern predicate fits(call) from "package.module:fits";\n'
    assert codes(text + ops(200)) == []
    (found,) = check(Source("t.collage", text + ops(201)))
    assert (found.code, found.message) == ("E0106", "this list has more than 200 items")
    assert found.help == "write several lists, joined with `or`, or in a `union`"
    assert found.span.text.startswith("[")
    assert found.span.text.endswith("]")


# Nesting.


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("rule a = union(union(host()));", 0),
        ("rule a = union(union(union(host())));", 32),
        ("rule a = union(union(host()), union(host(), host()));", 0),
        ("rule a = union(union(host(), union(host())));", 40),
        ("rule a = union(union(host()), union(union(host())));", 47),
        ("rule a = [[[]]];", 0),
        ("rule a = [[[[]]]];", 13),
        ("rule a = [[], [[], [[]]]];", 21),
    ],
)
def test_brackets_that_are_open_are_counted(
    text: str, column: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parser, "MAX_NESTING", 3)
    found = [each for each in check(Source("t", "collage 1;\n" + text)) if each.code == "E0105"]

    wanted = [(f"t:2:{column}", "more than 3 brackets are open here")] if column else []
    assert [(str(each.span), each.message) for each in found] == wanted


def test_brackets_are_counted_from_the_first_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser, "MAX_NESTING", 3)

    assert codes("rule a = union(union(host()));") == ["E0103"]
    assert codes("rule a = union(union(union(host())));") == ["E0103", "E0105"]


def test_brackets_are_counted_anew_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser, "MAX_NESTING", 3)

    assert codes("collage 1; rule a = union(union(; rule b = union(union(host()));") == ["E0101"]


def _of(operand: str) -> str:
    return f"pattern p(x) {{ y = {operand}; yield y; }}"


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        ("let a = b;", 0),
        ("rule a = b;", 0),
        ("target t on llvm(a: b) {}", 0),
        ("target t on llvm { rules a; }", 0),
        ("pin a() to t;", 0),
        ("forbid a() on t;", 0),
        ('test "t" { expect a; }', 0),
        ("pattern p(x) { y = x; where a; yield y; }", 0),
        ("target t on llvm(a: union(b)) {}", 1),
        ("rule a = union(b);", 1),
        ("rule a = union(union(b));", 2),
        ("rule a = [[b]];", 2),
        ("rule a = not not b;", 2),
        ("rule a = union(not not b);", 3),
        ("rule a = b - c + d;", 2),
        ("rule a = b * c / d;", 2),
        ("rule a = b and c and d;", 2),
        ("rule a = b or c or d or e;", 3),
        ("rule a = b == c;", 1),
        ("rule a = union(b - c - d);", 3),
        ("rule a = b and (c - d - e);", 3),
        (_of("x"), 0),
        (_of("exp(x)"), 1),
        (_of("exp(exp(exp(x)))"), 3),
        (_of("exp?(exp(x))"), 2),
        (_of("((exp | tanh) | sin)()"), 2),
        (_of("exp() [[[b]]]"), 3),
        (_of("((x | z) | 1)"), 2),
        (_of("((x))"), 2),
        (_of("((x,),)"), 2),
        (_of("x.0.1"), 2),
        (_of("repeat[1..2] exp()"), 2),
    ],
)
def test_what_is_in_something_is_one_deeper(
    text: str, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MAX_DEPTH", depth)
    assert "E0105" not in codes(f"collage 1; {text}")
    monkeypatch.setattr(tokens, "MAX_DEPTH", depth - 1)
    assert "E0105" in codes(f"collage 1; {text}")


@pytest.mark.parametrize(
    ("text", "deep"),
    [
        ("rule a = union(b - c + d);", "b - c + d"),
        ("rule a = union(not not not b);", "not not not b"),
        (_of("exp(exp(exp(x)))"), "exp"),
    ],
)
def test_what_is_too_deep_is_shown(text: str, deep: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MAX_DEPTH", 2)
    found, after = check(Source("t", f"collage 1; {text} rule r = unoin();"))

    assert (found.code, found.span.text) == ("E0105", deep)
    assert found.message == "this is nested more than 2 deep"
    assert found.help == "give parts of it a name"
    assert after.span.text == "unoin"


@pytest.mark.parametrize(
    "text",
    [
        "rule a = union(union(union(b))); target t on llvm { rules a; }",
        "pattern a(x) { y = exp(exp(exp(x))); yield y; } rule r = dfpattern(a);",
        "target t on llvm { rules not not not b; } forbid op(nn.relu) on t;",
    ],
)
def test_the_name_of_what_is_too_deep_is_known(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MAX_DEPTH", 2)

    assert codes(f"collage 1; {text}") == ["E0105"]


# What an error covers.


def test_a_missing_edition_is_where_it_would_be() -> None:
    assert covered("rule a = op_call_by_kind();") == [""]


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n}", "\r\n\r\n}"])
def test_a_string_that_is_not_closed_ends_with_its_line(end: str) -> None:
    assert covered(f'collage 1;\r\nimport "a;{end}')[0] == '"a;'


def test_a_part_of_a_chain_is_where_it_is_written() -> None:
    file = parse_file(Source("t", "collage 1; rule a = b - c + d;"), Findings())
    (rule,) = file.items
    assert isinstance(rule, ast.Rule)
    whole = rule.value
    assert isinstance(whole, ast.Operation)
    part = whole.left

    assert whole.span.text == "b - c + d"
    assert isinstance(part, ast.Operation)
    assert part.span.text == "b - c"


# What is read.


@pytest.mark.parametrize(
    "operand",
    [
        "add(x, -1.5)",
        "add(x, 2.0)",
        "nn.softmax(x) [axis in -3..-1]",
        "nn.softmax(x) [axis in -3..4]",
    ],
)
def test_numbers_have_a_sign(operand: str) -> None:
    specs = load(text=f"collage 1; {_of(operand)} target t on llvm {{ rules dfpattern(p); }}")

    assert operand in to_text(specs)


def test_parentheses_around_one_say_nothing() -> None:
    assert pattern(_of("exp((tanh((x))))")) == pattern(_of("exp(tanh(x))"))
