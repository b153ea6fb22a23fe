"""
The documents in `tests/language/` run: each section says what holds of the text in it.

A `collage` block is checked and the tests in it are run, a `graph` block is read; a
`diagnostics` block after it has everything that is wrong with it. Without one, nothing is.
`pytest tests/test_language_documents.py --update` writes the `diagnostics` blocks anew.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from collage_dsl.diagnostics import RuleError
from collage_dsl.engine.testing import run_tests
from collage_dsl.language import check, parse_graph
from collage_dsl.language.loading import load_contents
from collage_dsl.language.messages.codes import CODES
from collage_dsl.source import Source

FOLDER = Path(__file__).parent / "language"
DOCUMENTS = sorted(FOLDER.glob("*.md"))

TESTED_ELSEWHERE = {"E0105", "E0106", "E0108", "E0406", "E0802", "W0109"}
"""Codes for texts that are too long for a document, and for files that import each other."""

_BLOCK = re.compile(r"^```(collage|graph|diagnostics)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EXAMPLE = re.compile(
    r"^```(?P<language>collage|graph)\n(?P<text>.*?)^```$(?:\n+```diagnostics\n.*?^```$)?",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Example:
    document: str
    title: str
    language: str
    text: str
    wrong: str


def examples() -> Iterator[Example]:
    for path in DOCUMENTS:
        for section in re.split(r"^## ", path.read_text("utf-8"), flags=re.MULTILINE)[1:]:
            title = section.partition("\n")[0]
            blocks = _BLOCK.findall(section)
            for at, (language, text) in enumerate(blocks):
                after = blocks[at + 1] if at + 1 < len(blocks) else ("", "")
                wrong = after[1] if after[0] == "diagnostics" else ""
                if language != "diagnostics":
                    yield Example(path.name, title, language, text, wrong.strip("\n"))


@cache
def found(document: str, language: str, text: str) -> str:
    """The diagnostics of an example now."""
    if language == "collage":
        diagnostics = check(Source(document, text), [FOLDER])
        if diagnostics:
            return "\n\n".join(map(str, diagnostics))
        outcomes = run_tests(load_contents(Source(document, text), [FOLDER]))
        return "\n\n".join(str(failure) for each in outcomes for failure in each.failures)
    try:
        parse_graph(text, document)
    except RuleError as problem:
        return str(problem)
    return ""


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_a_document_holds(path: Path) -> None:
    of = [each for each in examples() if each.document == path.name]
    now = [(e.title, found(e.document, e.language, e.text)) for e in of]

    assert now == [(each.title, each.wrong) for each in of]


def updated(document: str, text: str) -> str:
    """The text of a document with the diagnostics of now."""

    def renewed(block: re.Match[str]) -> str:
        wrong = found(document, block["language"], block["text"])
        shown = f"\n\n```diagnostics\n{wrong}\n```" if wrong else ""
        return f"```{block['language']}\n{block['text']}```{shown}"

    return _EXAMPLE.sub(renewed, text)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_a_document_is_what_its_update_writes(path: Path, request: pytest.FixtureRequest) -> None:
    now = updated(path.name, path.read_text("utf-8"))
    if request.config.getoption("--update"):
        path.write_text(now, "utf-8")

    assert path.read_text("utf-8") == now


def test_every_code_has_an_example() -> None:
    shown = {
        code for e in examples() for code in re.findall(r"(?:error|warning)\[(\w+)\]", e.wrong)
    }

    assert shown | TESTED_ELSEWHERE == set(CODES)
