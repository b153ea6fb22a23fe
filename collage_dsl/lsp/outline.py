"""The names of a document as a tree, as editors show it."""

from dataclasses import dataclass

from collage_dsl.language import syntax
from collage_dsl.lsp.documents import Document
from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name, what sort of thing it is, where it stands in `whole`, and what is inside."""

    name: str
    sort: str
    span: Span
    whole: Span
    inside: tuple["Symbol", ...] = ()


def symbols(document: Document) -> tuple[Symbol, ...]:
    """What `document` defines, in file order: definitions, targets and tests."""
    names = document.names
    found = [
        _symbol(document, each.name, each.sort, each.span, each.whole)
        for each in (*names.definitions.values(), *names.targets.values())
        if each.of is None
    ]
    tests = [item for item in document.file.items if isinstance(item, syntax.Test)]
    found += [Symbol(test.name or "test", "test", test.name_span, test.span) for test in tests]
    return tuple(sorted(found, key=lambda symbol: symbol.whole.start))


def _symbol(document: Document, name: str, sort: str, span: Span, whole: Span) -> Symbol:
    inner = next((scope for at, scope in document.names.scopes if at == whole), {})
    inside = tuple(
        Symbol(each.name, each.sort, each.span, each.whole)
        for each in inner.values()
        if each.sort != "dimension"
    )
    return Symbol(name, sort, span, whole, inside)
