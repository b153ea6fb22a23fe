"""Diagnostics: mistakes in a spec file, with their places, and the text that shows them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from unicodedata import category, combining, east_asian_width

from collage_dsl.printable import printable, printable_lines
from collage_dsl.source import Span

_SHOWN_COLUMNS = 160
"""Longer lines are cut, so that one with a megabyte of text stays readable."""


class Severity(Enum):
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Note:
    """A second place that a diagnostic is about; without a span, a remark."""

    message: str
    span: Span | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", printable(self.message))


@dataclass(frozen=True, slots=True)
class Replacement:
    """A text to write in place of what `span` covers."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """An exact change of the file after which a diagnostic is gone. `title` says it in words."""

    title: str
    replacements: tuple[Replacement, ...]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """
    One thing wrong with a rule file. `code` never changes; `message` may be reworded.

    Names in `message` and `help` are escaped, for every format in which they are shown. `fix` is
    what `help` says as a change of the text, where it can be said exactly.
    """

    code: str
    message: str
    span: Span
    help: str = ""
    severity: Severity = Severity.ERROR
    notes: tuple[Note, ...] = ()
    fix: Fix | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", printable(self.message))
        object.__setattr__(self, "help", printable(self.help))

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR

    def __str__(self) -> str:
        shown = [f"{printable(str(self.span))}: {self.severity.value}[{self.code}]: {self.message}"]
        shown += excerpt(self.span)
        for note in self.notes:
            shown += _note(note)
        if self.help:
            shown.append(f"help: {self.help}")
        return printable_lines("\n".join(shown))


class RuleError(Exception):
    """A rule file cannot be used. Holds all its diagnostics, in file order."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        self.diagnostics = in_file_order(diagnostics)
        super().__init__("\n\n".join(map(str, self.diagnostics)))


def in_file_order(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """`diagnostics` sorted by place; at one place, the one found first comes first."""
    return tuple(sorted(diagnostics, key=lambda d: (d.span.source.name, d.span.start)))


def excerpt(span: Span) -> tuple[str, str]:
    """The first line of `span` with its number, and carets under what the span covers of it."""
    number, column = span.source.position(span.start)
    line = span.source.line(number)
    before, rest = line[: column - 1], line[column - 1 :]
    covered = rest[: max(0, span.end - span.start)]
    before, after = _cut(before, covered, rest[len(covered) :])
    covered = covered[:_SHOWN_COLUMNS]
    prefix = f"{number} | {_visible(before)}"
    carets = "^" * max(1, _width(_visible(covered)))
    return f"{prefix}{_visible(covered + after)}".rstrip(), " " * _width(prefix) + carets


def _note(note: Note) -> Iterator[str]:
    if note.span is None:
        yield f"note: {note.message}"
    else:
        yield f"{printable(str(note.span))}: note: {note.message}"
        yield from excerpt(note.span)


def _cut(before: str, covered: str, after: str) -> tuple[str, str]:
    """The parts of the line that are shown to the left and right of the covered text."""
    room = max(20, _SHOWN_COLUMNS - len(covered))
    if len(before) + len(after) <= room:
        return before, after
    left = min(len(before), max(room // 2, room - len(after)))
    right = room - left
    shown_before = before if left == len(before) else f"…{before[len(before) - left :]}"
    return shown_before, after if right >= len(after) else f"{after[:right]}…"


def _visible(text: str) -> str:
    return printable(text.replace("\t", "    "))


def _width(text: str) -> int:
    """The columns that a terminal needs for `text`."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if combining(character) or category(character) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(character) in ("F", "W") else 1
