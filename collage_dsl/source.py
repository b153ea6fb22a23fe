"""Source files and spans in them."""

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cache


@dataclass(frozen=True, slots=True)
class Source:
    """A text and the name that messages call it by."""

    name: str
    text: str = field(repr=False)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of `offset`, both counted from 1, in characters."""
        starts = _line_starts(self.text)
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of line `number` (from 1) without its line break; it may be the empty last."""
        starts = _line_starts(self.text)
        end = starts[number] - 1 if number < len(starts) else len(self.text)
        return self.text[starts[number - 1] : end].rstrip("\r")


@dataclass(frozen=True, slots=True)
class Span:
    """The characters of `source` from offset `start` up to but not including `end`."""

    source: Source
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def __str__(self) -> str:
        line, column = self.source.position(self.start)
        return f"{self.source.name}:{line}:{column}"


@cache
def _line_starts(text: str) -> tuple[int, ...]:
    breaks = (offset + 1 for offset, character in enumerate(text) if character == "\n")
    return (0, *breaks)
