"""Each code has a page, whose examples are what they say."""

import json
import sys
from pathlib import Path

import pytest

from collage_dsl.diagnostics import RuleError
from collage_dsl.language import check, parse_graph
from collage_dsl.language.messages.codes import CODES
from collage_dsl.language.messages.explanations import Example, explanation
from collage_dsl.source import Source
from tests.commands import said

ROOT = Path(__file__).parent.parent
EXPLANATIONS = "collage_dsl/language/messages/explanations"
sys.path.insert(0, str(ROOT / "scripts"))

import codes  # noqa: E402

TOO_LONG = {"E0105", "E0106", "E0108", "E0406", "W0109"}
"""Codes of texts that are too long for a page, which shows a part."""

NEEDS_OTHER_FILES = {"E0802", "E0804"}

FOUND_BY_RUNNING = {"E0710", "E0711"}
"""Codes of tests that run, and do not end as they should."""


def found(example: Example) -> set[str]:
    if example.notation == "collage":
        return {diagnostic.code for diagnostic in check(Source("example", example.text))}
    try:
        parse_graph(example.text)
    except RuleError as problem:
        return {diagnostic.code for diagnostic in problem.diagnostics}
    return set()


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    pages = {path.stem for path in (ROOT / EXPLANATIONS).glob("*.md")}

    assert pages == set(CODES), f"write {EXPLANATIONS}/CODE.md, as the others are"


@pytest.mark.parametrize("code", CODES)
def test_the_examples_of_a_page_hold(code: str) -> None:
    page = explanation(code)

    if code not in TOO_LONG | FOUND_BY_RUNNING | NEEDS_OTHER_FILES:
        assert found(page.wrong) == {code}
    assert found(page.right) == set()
    assert page.text.split("\n## ")[0].strip()


def test_the_table_in_the_documentation_is_that_of_the_code() -> None:
    assert codes.PATH.read_text("utf-8") == codes.table(), "run scripts/codes.py"


def test_explain_shows_a_page_in_any_case() -> None:
    done = said("explain", "e0201")

    assert done.code == 0
    assert done.out.startswith("# E0201: unknown operator\n")
    assert "## Wrong" in done.out


def test_explain_alone_lists_all_codes() -> None:
    assert [line.split()[0] for line in said("explain").out.splitlines()] == list(CODES)
    listed = json.loads(said("explain", "--output-format", "json").out)
    assert listed["codes"] == dict(CODES)


def test_explain_knows_what_a_code_was_meant_to_be() -> None:
    done = said("explain", "W0603")

    assert (done.code, done.out) == (2, "")
    assert "there is no code `W0603`; did you mean `E0603`?" in done.err
