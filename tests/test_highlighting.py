"""
The TextMate grammar against the grammar of the language. `make editors` runs it with the
engine that editors use.
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from collage_dsl.graph.types import KINDS, dtype_names
from collage_dsl.language.resolve.measuring import MEASURES
from collage_dsl.language.resolve.targets import SETTINGS
from collage_dsl.language.resolve.tuning import TUNES
from collage_dsl.language.syntax.grammar import parser
from collage_dsl.lsp.vocabulary import words
from collage_dsl.rules.rule_functions import LIMIT_NAMES
from tests.cases import sample

ROOT = Path(__file__).parent.parent
FILE = ROOT / "editors" / "vscode" / "syntaxes" / "collage.tmLanguage.json"
SPECS = sorted(ROOT.glob("specs/**/*.collage"))

KEYWORDS = {
    found[1]
    for found in re.finditer(
        r"(?m)^_?[A-Z_]+\.2: /([a-z_]+)\(", (ROOT / "grammars" / "collage.lark").read_text("utf-8")
    )
} | {"graph"}
AS_KEYWORDS = re.compile(
    r"keyword\.(control|other\.definition|operator\.word)|storage\.modifier|constant\.language|"
    r"support\.type\.property-name"  # `taps` among the limits of a target
)


@cache
def grammar() -> Any:
    return json.loads(FILE.read_text("utf-8"))


@cache
def rules() -> tuple[dict[str, Any], ...]:
    """The rules of the grammar in the order in which they are tried."""
    names = [each["include"].removeprefix("#") for each in grammar()["patterns"]]
    return tuple(rule for name in names for rule in grammar()["repository"][name]["patterns"])


def scopes(line: str) -> Iterator[tuple[int, int, str]]:
    """What the grammar says of parts of a line: the first rule that fits furthest left."""
    at = 0
    while at < len(line):
        found = [
            (match.start(), rule, match) for rule in rules() if (match := begin(rule, line, at))
        ]
        if not found:
            return
        _, rule, match = min(found, key=lambda each: each[0])
        end = match.end()
        if "end" in rule:
            end = string_end(line, match.end())
        if "name" in rule:
            yield match.start(), end, rule["name"]
        for group, capture in rule.get("captures", {}).items():
            yield match.start(int(group)), match.end(int(group)), capture["name"]
        at = max(end, at + 1)


def begin(rule: dict[str, Any], line: str, at: int) -> re.Match[str] | None:
    return re.compile(rule.get("match") or rule["begin"]).search(line, at)


def string_end(line: str, start: int) -> int:
    closing = re.compile(r'(?:[^"\\]|\\.)*("|$)').match(line, start)
    return closing.end() if closing else len(line)


def scope_at(line: str, column: int) -> str:
    found = [(end - start, name) for start, end, name in scopes(line) if start <= column < end]
    return min(found)[1] if found else ""


SAMPLES = {
    "collage": "¦collage 1;",
    "as": 'import "x" ¦as y;',
    "only": 'import "x" ¦only (y);',
    "on": "target t ¦on llvm {",
    "else": '  where a ¦else "b";',
    "taps": "  ¦taps none;",
    "path": "  y = ¦path[1..2] f from x;",
    "each": "  y = ¦each[1..2] f(x);",
    "repeat": "  y = ¦repeat[1..2] f(x);",
    "ordered": "  y = f(x) ¦ordered;",
    "flat": "  y = f(x, 2) ¦flat;",
    "shared": "  y = f(x) ¦shared;",
    "or": "  where a ¦or b;",
    "and": "  where a ¦and b;",
    "in": "  where a ¦in [b];",
    "graph": "  ¦graph {",
    "costs": "  ¦costs {",
    "model": '  ¦model "x";',
    "const": "  w = ¦const f32[1];",
    "extern": '¦extern predicate f(x) from "m:f";',
    "predicate": 'extern ¦predicate f(x) from "m:f";',
    "from": 'extern predicate f(x) ¦from "m:f";',
    "to": "pin op(a) ¦to t;",
    "because": 'forbid op(a) on t ¦because "b";',
    "within": "  y = exp(~0.7 ¦within 1e-3);",
    "pattern_table": 'import ¦pattern_table "x" as y;',
    "table": 'import ¦pattern_table "x" as y;',
}
"""Where a word is a keyword, if not at the beginning of a statement."""


@pytest.mark.parametrize("keyword", sorted(KEYWORDS))
def test_every_keyword_is_highlighted(keyword: str) -> None:
    line = SAMPLES.get(keyword, f"  ¦{keyword} x;")
    scope = scope_at(line.replace("¦", ""), line.index("¦"))

    assert AS_KEYWORDS.match(scope), f"{keyword} in `{line}` is {scope}"


@pytest.mark.parametrize("keyword", sorted(KEYWORDS))
def test_a_name_that_begins_as_a_keyword_is_none(keyword: str) -> None:
    for name in (f"{keyword}x", f"{keyword}_", f"x{keyword}", f"x.{keyword}"):
        line = f"  y = add({name}, {name});"
        assert scope_at(line, line.index(name)) == "variable.other.collage", name


@pytest.mark.parametrize("path", sample(3, SPECS), ids=lambda path: path.stem)
def test_every_token_of_the_specs_that_ship_is_highlighted_as_what_it_is(path: Path) -> None:
    wanted = {
        "STRING": "string",
        "NUMBER": "constant.numeric",
        "COMPARISON": "keyword.operator",
        "OPTIONAL": "keyword.operator",
        # `const`, `none` and kinds are names to the grammar of the language.
        "NAME": r"variable|entity|support|constant\.language|storage\.modifier",
    }
    text = path.read_text("utf-8")
    lines = text.split("\n")
    count = 0
    for token in parser("file").parse_interactive(text).iter_parse():
        kind, start = token.type, token.start_pos
        assert start is not None
        line, column = text.count("\n", 0, start), start - (text.rfind("\n", 0, start) + 1)
        scope = scope_at(lines[line], column)
        # `taps` is a statement of a pattern, and a limit.
        word = str(token)
        keyword = word in KEYWORDS and (kind != "NAME" or word == "taps")
        said = AS_KEYWORDS if keyword else re.compile(wanted.get(kind, ""))
        assert said.match(scope), f"{path}:{line + 1}:{column + 1}: {kind} {word} is {scope}"
        count += 1
    assert count > 10


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_comments_are_highlighted(path: Path) -> None:
    for line in path.read_text("utf-8").splitlines():
        if line.lstrip().startswith("#"):
            assert scope_at(line, line.index("#")).startswith("comment")


def test_the_words_of_the_language_that_are_no_keywords_are_highlighted() -> None:
    calls = [*words("rule"), *words("function"), *words("question"), "kind"]
    lines = {
        "support.function": [f"rule r = ¦{word}(x);" for word in calls],
        "support.type.dtype": [f"  a: ¦{word}[1];" for word in dtype_names()],
        "constant.language.kind": [f"rule r = op_call_by_kind(¦{word});" for word in KINDS],
        "support.type.property-name": [f"  ¦{word} x;" for word in SETTINGS]
        + [f"  limits {{ ¦{word} 1; }}" for word in LIMIT_NAMES if word != "taps"]
        + [f"  measure {{ ¦{word} 1; }}" for word in MEASURES]
        + [f"  tune {{ ¦{word} 1; }}" for word in TUNES],
        "constant.language.collage": [
            "  y = sum(x) [axis == ¦none];",
            "  y = sum(x) [axis in [1, ¦none]];",
            "  a = sum(x) [axis = ¦none];",
        ],
        "constant.numeric": ["  measure { budget ¦1.5s; }", "  measure { timeout ¦30s; }"],
    }
    lacking = [
        line
        for scope, samples in lines.items()
        for line in samples
        if not scope_at(line.replace("¦", ""), line.index("¦")).startswith(scope)
    ]

    assert lacking == []


def test_a_string_ends_where_it_does() -> None:
    line = r'  where a == "x\" # y" and b; # c'

    assert scope_at(line, line.index("# y")).startswith("string")
    assert scope_at(line, line.index("and")) == "keyword.operator.word.collage"
    assert scope_at(line, line.index("# c")).startswith("comment")
