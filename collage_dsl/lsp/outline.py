"""List the names of a document as a tree, which editors show as its outline."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from collage_dsl.language.syntax import ast
from collage_dsl.lsp.documents import Document
from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name and its sort, the span of the name within `whole`, and the symbols inside."""

    name: str
    sort: str
    span: Span
    whole: Span
    inside: tuple["Symbol", ...] = ()


def symbols(document: Document) -> tuple[Symbol, ...]:
    """The definitions, targets and tests of `document`, in file order."""
    names = document.names
    found = [
        _symbol(document, each.name, each.sort, each.span, each.whole)
        for each in (*names.definitions.values(), *names.targets.values())
        if each.of is None
    ]
    tests = [item for item in document.file.items if isinstance(item, ast.Test)]
    found += [Symbol(test.name or "test", "test", test.name_span, test.span) for test in tests]
    return tuple(sorted(found, key=lambda symbol: symbol.whole.start))


def workspace_symbols(
    query: str, documents: Iterable[Document]
) -> Iterator[tuple[Document, Symbol]]:
    """The symbols whose names have the letters of `query`."""
    for document in documents:
        for symbol in symbols(document):
            if has_letters(symbol.name, query):
                yield document, symbol


def has_letters(name: str, query: str) -> bool:
    """Whether `name` contains the letters of `query` in this order, in any case."""
    letters = iter(name.lower())
    return all(letter in letters for letter in query.lower())


def _symbol(document: Document, name: str, sort: str, span: Span, whole: Span) -> Symbol:
    inner = next((scope for at, scope in document.names.scopes if at == whole), {})
    inside = tuple(
        Symbol(each.name, each.sort, each.span, each.whole)
        for each in inner.values()
        if each.sort != "dimension"
    )
    return Symbol(name, sort, span, whole, inside)
