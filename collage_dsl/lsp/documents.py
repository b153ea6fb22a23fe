"""The text of one spec file in the editor, parsed, with its names."""

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from collage_dsl.language.loading import Parsed
from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.syntax import ast
from collage_dsl.language.syntax.parser import parse_file
from collage_dsl.lsp.name_walk import names_of
from collage_dsl.lsp.names import Definition, Names
from collage_dsl.lsp.positions import Encoding, Position, Positions
from collage_dsl.source import Source, Span


@dataclass(frozen=True)
class Document:
    """
    A text and its `path`, which is absolute.

    For a text that was never saved, `path` is the name that the editor gave it.
    """

    path: Path
    text: str = field(repr=False)
    encoding: Encoding = "utf-16"

    @property
    def folder(self) -> Path | None:
        return self.path.parent if self.path.is_absolute() else None

    @cached_property
    def source(self) -> Source:
        return Source(str(self.path), self.text)

    @cached_property
    def parsed(self) -> Parsed | None:
        """The syntax that could be parsed, and the errors; None if there are too many of them."""
        findings = Findings()
        with findings.limited():
            return Parsed(parse_file(self.source, findings), findings.in_order())
        return None

    @property
    def file(self) -> ast.File:
        """The syntax that could be parsed; empty if there are too many errors."""
        return ast.File((), ()) if self.parsed is None else self.parsed.file

    @property
    def is_parsed(self) -> bool:
        return "names" in self.__dict__

    @cached_property
    def names(self) -> Names:
        return names_of(self.source, self.file)

    @cached_property
    def positions(self) -> Positions:
        return Positions(self.text, self.encoding)

    def offset(self, line: int, column: int) -> int:
        return self.positions.offset(Position(line, column))

    def comment_above(self, span: Span) -> str:
        """The comment on the lines directly before `span`, without the `#` signs."""
        lines = self.text[: span.start].split("\n")[:-1]
        found: list[str] = []
        while lines and (line := lines.pop().strip()).startswith("#"):
            found.append(line.lstrip("#").strip())
        return "\n".join(reversed(found))

    def header(self, definition: Definition) -> str:
        """The text of a definition on few lines: all of it, or the part before its braces."""
        text = definition.whole.text
        if definition.sort in ("pattern", "target"):
            text = text.partition("{")[0].strip()
        lines = text.splitlines()
        return "\n".join([*lines[:_MOST_LINES], "…"] if len(lines) > _MOST_LINES else lines)

    def word_at(self, offset: int) -> str:
        """The letters, digits and dots around `offset`."""
        line_start = self.text.rfind("\n", 0, offset) + 1
        words = _WORD.finditer(self.text, line_start)
        found = next((word for word in words if word.end() >= offset), None)
        return found[0] if found is not None and found.start() <= offset else ""


_WORD = re.compile(r"[\w.]+")

_MOST_LINES = 12
