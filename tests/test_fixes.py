"""A fix that a finding offers removes the finding when it is applied."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from collage_dsl.diagnostics import Diagnostic, Fix, Replacement
from collage_dsl.language import check
from collage_dsl.language.messages.advice import place_of_imports
from collage_dsl.language.messages.codes import CODES
from collage_dsl.language.messages.explanations import explanation
from collage_dsl.language.messages.fixes import applied
from collage_dsl.language.messages.hints import did_you_mean
from collage_dsl.source import Source, Span
from tests import test_hints as hints
from tests.cases import sample
from tests.commands import said

TESTS = Path(__file__).parent
NEEDS_MORE = {"exp(x * 2)"}
"""Texts with a second mistake, which the fix of the first uncovers."""

_BLOCK = re.compile(r"^```collage\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def texts() -> Iterator[tuple[str, str]]:
    """Every wrong text of the pages about hints, codes and the language, after its page."""
    for case in hints.CASES:
        yield hints.PAGE.name, case.text
    for code in CODES:
        if explanation(code).wrong.notation == "collage":
            yield "codes", explanation(code).wrong.text
    for page in sorted((TESTS / "language").glob("*.md")):
        for block in _BLOCK.findall(page.read_text("utf-8")):
            yield page.name, block


TEXTS = tuple(texts())


def found(text: str) -> tuple[Diagnostic, ...]:
    return check(Source("t.collage", text), folder=TESTS / "language")


@pytest.mark.parametrize("page", sample(3, dict.fromkeys(page for page, _ in TEXTS)))
def test_a_fix_removes_its_finding(page: str) -> None:
    for of, text in TEXTS:
        if of == page and not any(part in text for part in NEEDS_MORE):
            assert_fixes_remove_their_findings(text)


def assert_fixes_remove_their_findings(text: str) -> None:
    before = found(text)
    for finding in before:
        if finding.fix is None:
            continue
        after = applied(text, [finding.fix])
        first, last = place(finding.fix)

        again = found(after)
        left = [each for each in again if first <= each.span.start < max(last, first + 1)]

        said = f"{finding}\n{finding.fix.title}:\n{after}"
        assert (finding.code, finding.message) not in {(f.code, f.message) for f in left}, said
        # Nor has the text around it become one that cannot be read.
        assert not new_syntax_errors(before, again, last), said


def place(fix: Fix) -> tuple[int, int]:
    """The offsets in the text after `fix` between which the text has changed."""
    starts = [each.span.start for each in fix.replacements]
    grown = sum(len(each.text) - (each.span.end - each.span.start) for each in fix.replacements)
    return min(starts), max(each.span.end for each in fix.replacements) + grown


def new_syntax_errors(
    before: Sequence[Diagnostic], after: Sequence[Diagnostic], end: int
) -> list[Diagnostic]:
    """The errors `after` that are not in `before`, up to the offset `end`."""
    known = {(each.code, each.message) for each in before}
    return [
        each
        for each in after
        if each.code in ("E0101", "E0102", "E0104") and each.span.start < end
        if (each.code, each.message) not in known
    ]


def test_check_with_fix_writes_the_file_and_shows_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a.collage"
    path.write_text("pattern f(x) { y = nn.rellu(x) yield y; }\nrule a = host(unknown);\n")

    done = said("check", path, "--fix", "--output-format", "concise")

    assert path.read_text() == (
        "collage 1;\n\npattern f(x) { y = nn.relu(x); yield y; }\nrule a = host(unknown);\n"
    )
    assert done.code == 1
    assert "E0403" in done.out
    assert "fixed" in done.err


def test_a_fix_that_overlaps_an_earlier_one_is_left_out() -> None:
    source = Source("t", "abcdef")
    fixes = [
        Fix("1", (Replacement(Span(source, 0, 2), "X"),)),
        Fix("2", (Replacement(Span(source, 1, 3), "Y"),)),
        Fix("3", (Replacement(Span(source, 4, 5), ""),)),
    ]

    assert applied(source.text, fixes) == "Xcdf"


def test_a_name_that_needs_quotes_has_no_fix() -> None:
    assert did_you_mean("conv/x", ["conv/y"]).new is None


def test_an_import_comes_after_the_other_imports() -> None:
    text = 'collage 1;\nimport "std/x.collage" as x;\n\npattern p(x) { y = swish(x); yield y; }\n'

    place = place_of_imports(Source("t", text))

    assert text[: place.start].endswith("as x;\n")


def test_a_fix_of_other_ends_of_lines_leaves_what_follows_comments() -> None:
    lines = [
        "collage 1;",
        "# a comment",
        "pattern p(x) {  # more",
        "  y = exp(x);",
        "  yield y;",
        "}",
    ]
    for end in ("\r", "\x85", "\u2028"):
        start = "collage 1;\n" if end != "\r" else ""
        text = start + end.join(lines[bool(start) :])

        (finding,) = (each for each in found(text) if each.code == "E0109")

        assert finding.fix is not None
        assert finding.fix.title == "end the lines of this text with line feeds"
        after = applied(text, [finding.fix])
        assert after.replace("\r", "\n") == "\n".join(lines)
        assert found(after) == ()


def test_a_fix_that_removes_a_character_names_it() -> None:
    (finding,) = found("collage 1;\n# a \u202e comment\n")

    assert finding.fix is not None
    assert finding.fix.title == "remove U+202E"
