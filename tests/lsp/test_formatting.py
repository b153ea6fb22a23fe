"""A part of a document is formatted without harm to the rest."""

import time
from pathlib import Path
from random import Random
from textwrap import dedent

from hypothesis import given
from hypothesis import strategies as st

from collage_dsl.language.syntax.formatter_tree import tokens, words
from collage_dsl.language.syntax.whole_text import MAX_CHARACTERS
from collage_dsl.language.write.formatter import format_source, formatted_text
from collage_dsl.lsp.documents import Document
from collage_dsl.lsp.formatting import formatted_lines
from collage_dsl.source import Source
from tests.cases import cases
from tests.test_formatter import ROOT

SPECS = [(ROOT / f"specs/{name}.collage").read_text() for name in ("openvino", "onnxruntime")]


def with_formatted(text: str, lines: range) -> str:
    """`text` with the changes that touch `lines`."""
    document = Document(Path("/a.collage"), text)
    for span, new in reversed(formatted_lines(document, lines)):
        text = text[: span.start] + new + text[span.end :]
    return text


def said(text: str) -> tuple[list[str], list[str]]:
    """The words of `text` in order, and its comments."""
    every = list(words(text))
    return [each for each in every if each[0] != "#"], sorted(e for e in every if e[0] == "#")


@st.composite
def laid_out(draw: st.DrawFn) -> str:
    """A spec with other line breaks, spaces and more comments."""
    text, random = draw(st.sampled_from(SPECS)), Random(draw(st.integers()))
    found, kind_before = [], ""
    for kind, start, end in tokens(text):
        written = text[start:end]
        if kind == "space" and kind_before != "comment":
            choices = [written, " ", "\n", f"  # {len(found)}\n"]
            written = random.choices(choices, (20, 3, 4, 1))[0]
        kind_before = kind
        found.append(written)
    return "".join(found)


@cases(10)
@given(laid_out(), st.data())
def test_formatting_some_lines_loses_and_repeats_nothing(text: str, data: st.DataObject) -> None:
    last = text.count("\n")
    first = data.draw(st.integers(0, last))
    part = with_formatted(text, range(first, data.draw(st.integers(first, last)) + 1))
    format_source(Source("part", part))
    assert said(part) == said(text)


def test_lines_that_end_up_on_others_are_formatted_together() -> None:
    text = dedent("""\
        collage 1;

        test "a" { graph { x: f32[8]; return

        x; }

        expect candidates(t)

        == 4; }
        """)
    for line in range(text.count("\n")):
        part = with_formatted(text, range(line, line + 1))
        assert formatted_text(part) == formatted_text(text)


def test_only_the_line_breaks_of_editors_count() -> None:
    text = "collage 1;\n\f\n# a\nlet  a = one_of(exp);\n\nlet  b = one_of(exp);\n"
    assert with_formatted(text, range(3, 4)) == text.replace("let  a", "let a")


def test_the_lines_of_many_equal_comments_are_found_at_once() -> None:
    text = "collage 1;\n\n" + "#\n" * (MAX_CHARACTERS // 2 - 100) + "let  a = one_of(exp);\n"
    start = time.process_time()
    part = with_formatted(text, range(MAX_CHARACTERS))
    assert part == text.replace("let  a", "let a")
    assert time.process_time() - start < 10
