"""Compute the smallest edit that brings a document into the one style."""

from collections.abc import Sequence

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


def _common(left: Sequence[str], right: Sequence[str]) -> int:
    """The number of equal lines at the start of both."""
    pairs = zip(left, right, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
