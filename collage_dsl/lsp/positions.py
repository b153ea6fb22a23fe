"""Convert between the lines and columns of an editor and our offsets."""

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Literal

Encoding = Literal["utf-8", "utf-16", "utf-32"]

_BREAK = re.compile(r"\r\n|\n|\r")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")


def lines_of(text: str) -> list[str]:
    """The lines of `text` as editors count them, with their line breaks."""
    return _LINE.findall(text)


@dataclass(frozen=True, slots=True)
class Position:
    """A line and a column, both counted from 0; the column in units of the encoding."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Positions:
    """Converts offsets in `text` to positions and back; columns are in units of `encoding`."""

    text: str
    encoding: Encoding = "utf-16"
    _starts: list[int] = field(init=False, repr=False, compare=False)
    _ends: list[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        breaks = [found.span() for found in _BREAK.finditer(self.text)]
        object.__setattr__(self, "_starts", [0, *(end for _, end in breaks)])
        object.__setattr__(self, "_ends", [*(start for start, _ in breaks), len(self.text)])

    def position(self, offset: int) -> Position:
        line = bisect_right(self._starts, offset) - 1
        return Position(line, self._units(self.text[self._starts[line] : offset]))

    def offset(self, at: Position) -> int:
        """The offset of `at`; the end of its line, or of the text, if `at` lies beyond."""
        if at.line >= len(self._starts):
            return len(self.text)
        line = self.text[self._starts[at.line] : self._ends[at.line]]
        return self._starts[at.line] + self._characters(line, at.column)

    def _units(self, text: str) -> int:
        if self.encoding == "utf-32" or text.isascii():
            return len(text)
        if self.encoding == "utf-8":
            return len(text.encode("utf-8", "surrogatepass"))
        return len(text) + sum(character > "\uffff" for character in text)

    def _characters(self, line: str, units: int) -> int:
        """The number of characters of `line` that begin before unit `units`."""
        if self.encoding == "utf-32" or line.isascii():
            return min(max(units, 0), len(line))
        passed = 0
        for at, character in enumerate(line):
            if passed >= units:
                return at
            passed += self._units(character)
        return len(line)
