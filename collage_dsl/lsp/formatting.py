"""Compute the smallest edit that brings a document into the one style."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from collage_dsl.diagnostics import RuleError
from collage_dsl.language.syntax.formatter_tree import tokens
from collage_dsl.language.write.formatter import format_source
from collage_dsl.lsp.documents import Document
from collage_dsl.lsp.positions import lines_of
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
    before, after = lines_of(old), lines_of(new)
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
    before, after = lines_of(document.text), lines_of(new)
    if before and before[0].endswith("\r\n"):
        after = [line.replace("\n", "\r\n") for line in after]
    starts = [0, *accumulate(map(len, before))]
    return [
        (Span(document.source, starts[old.start], starts[old.stop]), "".join(after[written]))
        for old, written in _changes(before, after)
        if old.start < lines.stop and lines.start < max(old.stop, old.start + 1)
    ]


def _changes(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[slice, slice]]:
    """
    The runs of lines of `before` that change, and those of `after` in their place. Both have the
    same words and comments, so one change without the others loses and repeats nothing.
    """
    first = at = new_first = new_at = 0
    old, new = _Contents(), _Contents()
    while at < len(before) or new_at < len(after):
        takes_old = at < len(before) and (old.words <= new.words or new_at == len(after))
        takes_new = new_at < len(after) and (new.words <= old.words or at == len(before))
        if takes_old:
            old.add(before[at])
            at += 1
        if takes_new:
            new.add(after[new_at])
            new_at += 1
        is_last = at == len(before) and new_at == len(after)
        if old == new or is_last:
            if before[first:at] != after[new_first:new_at]:
                yield slice(first, at), slice(new_first, new_at)
            first, new_first = at, new_at
            old, new = _Contents(), _Contents()


@dataclass(slots=True)
class _Contents:
    """What some lines contain. Words are only counted, because the formatter keeps their order."""

    words: int = 0
    comments: Counter[str] = field(default_factory=Counter)
    last: str = ""
    """The last word or sign. Commas and semicolons are not counted: the last may be left out."""

    def add(self, line: str) -> None:
        for kind, start, end in tokens(line):
            text = line[start:end].rstrip()
            if kind == "comment":
                self.comments[text] += 1
            elif kind != "space":
                self.words += text not in (",", ";")
                self.last = text


def _common(left: Sequence[str], right: Sequence[str]) -> int:
    """The number of equal lines at the start of both."""
    pairs = zip(left, right, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
