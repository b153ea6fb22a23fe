"""Diagnostics: mistakes in a spec file, with their places, and the text that shows them."""

from collections.abc import Iterable, Iterator, Sequence
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
        for notes in _on_one_line(self.notes):
            shown += _shown_notes(notes)
        if self.help:
            shown.append(f"help: {self.help}")
        return printable_lines("\n".join(shown))


class RuleError(Exception):
    """
    A rule file cannot be used. Holds all its diagnostics, in file order. One that a pass of TVM
    raises reaches the caller with its text, but without diagnostics.
    """

    def __init__(self, *said: Diagnostic | str) -> None:
        self.diagnostics = in_file_order(each for each in said if isinstance(each, Diagnostic))
        super().__init__(*(self.diagnostics or said))

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.args))


def in_file_order(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """`diagnostics` sorted by place; at one place, the one found first comes first."""
    return tuple(sorted(diagnostics, key=lambda d: (d.span.source.name, d.span.start)))


def excerpt(*spans: Span) -> tuple[str, str]:
    """The line on which `spans` begin, with its number, and carets under what they cover of it."""
    number, column = spans[0].source.position(min(span.start for span in spans))
    line = spans[0].source.line(number)
    start = min(span.start for span in spans)
    before, rest = line[: column - 1], line[column - 1 :]
    covered = rest[: max(0, max(span.end for span in spans) - start)]
    before, after = _cut(before, covered, rest[len(covered) :])
    covered = covered[:_SHOWN_COLUMNS]
    prefix = f"{number} | {_visible(before)}"
    carets = "".join(
        ("^" if any(span.start <= at < span.end for span in spans) else " ")
        * _width(_visible(character))
        for at, character in enumerate(covered, start)
    )
    return f"{prefix}{_visible(covered + after)}".rstrip(), " " * _width(prefix) + (carets or "^")


def _on_one_line(notes: Sequence[Note]) -> Iterator[tuple[Note, ...]]:
    """`notes` in order, those together that say the same of places on one line."""
    left = list(dict.fromkeys(notes))
    while left:
        first, *others = left
        same = [first, *(note for note in others if _is_beside(note, first))]
        ends = [at for note in same if note.span for at in (note.span.start, note.span.end)]
        if ends and max(ends) - min(ends) > _SHOWN_COLUMNS:
            same = [first]
        yield tuple(same)
        left = [note for note in others if note not in same]


def _is_beside(note: Note, other: Note) -> bool:
    one, two = note.span, other.span
    if note.message != other.message or one is None or two is None or one.source != two.source:
        return False
    return one.source.position(one.start)[0] == two.source.position(two.start)[0]


def _shown_notes(notes: Sequence[Note]) -> Iterator[str]:
    """One note, or several on one line with the same words."""
    spans = [note.span for note in notes if note.span is not None]
    if not spans:
        yield f"note: {notes[0].message}"
    else:
        yield f"{printable(str(spans[0]))}: note: {notes[0].message}"
        yield from excerpt(*spans)


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
