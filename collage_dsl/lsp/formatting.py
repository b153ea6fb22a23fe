"""Compute the smallest edit that brings a document into the one style."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import accumulate

from collage_dsl.diagnostics import RuleError
from collage_dsl.language.write.formatter import format_source
from collage_dsl.lsp.documents import Document
from collage_dsl.source import Span


def formatted(document: Document) -> tuple[Span, str] | None:
    """
    The span to replace and its new text, as short as one edit can be. None if nothing changes or
    the text has syntax errors.
    """
    try:
        new = format_source(document.source)
    except RuleError:
        return None
    old = document.text
    if new == old:
        return None
    # Whole lines only: an edit must not begin or end between the two characters of a line break.
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    first = _common(before, after)
    last = _common(before[first:][::-1], after[first:][::-1])
    start = sum(map(len, before[:first]))
    end = len(old) - sum(map(len, before[len(before) - last :]))
    return Span(document.source, start, end), "".join(after[first : len(after) - last])


def formatted_lines(document: Document, lines: range) -> list[tuple[Span, str]]:
    """
    The changes of `formatted` that touch `lines` (from 0), each a run of whole lines. They leave
    the line breaks of the document as they are.
    """
    try:
        new = format_source(document.source)
    except RuleError:
        return []
    before = document.text.splitlines(keepends=True)
    after = new.splitlines(keepends=True)
    if before and before[0].endswith("\r\n"):
        after = [line.replace("\n", "\r\n") for line in after]
    starts = [0, *accumulate(map(len, before))]
    found = []
    for kind, first, end, new_first, new_end in SequenceMatcher(
        None, before, after, autojunk=False
    ).get_opcodes():
        if kind != "equal" and first < lines.stop and lines.start < max(end, first + 1):
            span = Span(document.source, starts[first], starts[end])
            found.append((span, "".join(after[new_first:new_end])))
    return found


def _common(left: Sequence[str], right: Sequence[str]) -> int:
    """The number of equal lines at the start of both."""
    pairs = zip(left, right, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
