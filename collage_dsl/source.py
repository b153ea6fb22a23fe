"""The text of a source file, and spans: ranges of characters in it."""

from bisect import bisect_right
from dataclasses import dataclass, field

NEVER_SEARCHED = frozenset({".git", ".hg", ".jj", ".svn", ".venv", "node_modules"})
"""Folders whose files are never those of a repository."""


@dataclass(frozen=True, slots=True)
class Source:
    """A text, and its name in messages."""

    name: str
    text: str = field(repr=False)
    _starts: tuple[int, ...] = field(default=(), init=False, repr=False, compare=False)
    """The starts of lines; empty until needed. Kept here, so that it is freed with the text."""

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of `offset`, both counted from 1, in characters."""
        starts = self._line_starts()
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of line `number` (from 1) without its line break; it may be the empty last."""
        starts = self._line_starts()
        end = starts[number] - 1 if number < len(starts) else len(self.text)
        return self.text[starts[number - 1] : end].rstrip("\r")

    def _line_starts(self) -> tuple[int, ...]:
        if not self._starts:
            breaks = (at + 1 for at, character in enumerate(self.text) if character == "\n")
            object.__setattr__(self, "_starts", (0, *breaks))
        return self._starts


@dataclass(frozen=True, slots=True)
class Span:
    """The characters of `source` from offset `start` to `end`, without the one at `end`."""

    source: Source
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def __str__(self) -> str:
        line, column = self.source.position(self.start)
        return f"{self.source.name}:{line}:{column}"
