"""Find the parts of a document that can be folded."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from collage_dsl.language.syntax import ast
from collage_dsl.language.syntax.formatter_tree import tokens
from collage_dsl.lsp.documents import Document

_OPENING, _CLOSING = frozenset("{(["), frozenset("})]")


@dataclass(frozen=True, slots=True)
class Fold:
    """Lines from 0; the first stays visible."""

    first: int
    last: int
    kind: Literal["comment", "imports", "region"] = "region"


def folds(document: Document) -> Iterator[Fold]:
    """Brackets, runs of comments, and runs of imports, of more than one line."""
    line = document.positions.position
    open_: list[int] = []
    comments: list[int] = []
    for kind, start, end in tokens(document.text):
        text = document.text[start:end]
        if kind == "comment":
            comments.append(line(start).line)
        elif kind == "sign" and text in _OPENING:
            open_.append(line(start).line)
        elif kind == "sign" and text in _CLOSING and open_:
            first, last = open_.pop(), line(start).line
            if last - 1 > first:  # the line of the closing bracket stays visible
                yield Fold(first, last - 1)
    imports = [item for item in document.file.items if isinstance(item, ast.Import)]
    if imports and line(imports[0].span.start).line < line(imports[-1].span.start).line:
        first, last = (line(imports[at].span.start).line for at in (0, -1))
        yield Fold(first, last, "imports")
    yield from _runs(comments)


def _runs(lines: list[int]) -> Iterator[Fold]:
    """The runs of comments on lines that follow each other."""
    first = last = -2
    for line in [*lines, -2]:
        if line != last + 1:
            if last > first:
                yield Fold(first, last, "comment")
            first = line
        last = line
