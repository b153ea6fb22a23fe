"""Tell what each word of a document is, for editors that color by meaning."""

from collections.abc import Iterator
from dataclasses import dataclass

from collage_dsl.language.syntax.formatter_tree import tokens
from collage_dsl.language.syntax.grammar import spellings
from collage_dsl.lsp.documents import Document
from collage_dsl.lsp.names import Definition, External, Use, Word
from collage_dsl.source import Span

TYPES = (
    *("namespace", "type", "class", "enum", "enumMember", "typeParameter", "parameter"),
    *("variable", "property", "function", "keyword", "comment", "string", "number"),
)
MODIFIERS = ("declaration", "defaultLibrary")

_OF_SORT = {
    "import": "namespace",
    "target": "namespace",
    "pattern": "class",
    "class": "enum",
    "rule": "function",
    "predicate": "function",
    "imported name": "class",
    "parameter": "parameter",
    "dimension": "typeParameter",
    "value": "variable",
    "node": "variable",
}
_OF_GROUP = {
    **dict.fromkeys(("operator", "function", "question", "rule"), "function"),
    **dict.fromkeys(("attribute", "setting", "limit", "measure", "tune", "argument"), "property"),
    **dict.fromkeys(("kind", "primitive", "variant", "taps"), "enumMember"),
    **dict.fromkeys(("modifier", "sort"), "keyword"),
    "dtype": "type",
}


@dataclass(frozen=True, slots=True)
class Colored:
    """A part of one line; `type` is one of `TYPES`, each modifier one of `MODIFIERS`."""

    span: Span
    type: str
    modifiers: tuple[str, ...] = ()


def colored(document: Document) -> Iterator[Colored]:
    """All names, words, comments, strings and numbers, in file order."""
    names = {found.span.start: found for found in map(_name, document.names.uses) if found}
    keywords = set(spellings("file").values())
    end = 0
    for kind, start, token_end in tokens(document.text):
        if start < end:  # in a name with a prefix
            continue
        if start in names:
            yield names[start]
            end = names[start].span.end
            yield from _rest(names, end, token_end)
            end = max(end, token_end)
        elif kind in ("comment", "string", "open", "number"):
            shown = "string" if kind == "open" else kind
            yield Colored(Span(document.source, start, token_end), shown)
        elif kind == "word" and document.text[start:token_end] in keywords:
            yield Colored(Span(document.source, start, token_end), "keyword")


def _rest(names: dict[int, Colored], start: int, end: int) -> Iterator[Colored]:
    """The name after a prefix: `relu6` in `act.relu6`."""
    if start < end and start + 1 in names:
        yield names[start + 1]


def _name(use: Use) -> Colored | None:
    match use.what:
        case Definition(sort=sort, span=span):
            modifiers = ("declaration",) if span == use.span else ()
            return Colored(use.span, _OF_SORT.get(sort, "variable"), modifiers)
        case Word(group):
            if group in _OF_GROUP:
                return Colored(use.span, _OF_GROUP[group], ("defaultLibrary",))
        case External(_, name) if name:
            return Colored(use.span, "class")
    return None
