"""Show what is known about values: types in graphs, sorts in patterns."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from collage_dsl.language.graphs.graph_text import known_types
from collage_dsl.language.reasoning.findings.sorts_of_values import Sorts
from collage_dsl.language.reasoning.findings.value_sorts import Sort, Tensor, Tuple
from collage_dsl.language.syntax import ast, graph_ast
from collage_dsl.lsp.documents import Document
from collage_dsl.lsp.files import Files
from collage_dsl.lsp.names import Definition
from collage_dsl.rules import Pattern
from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class Hint:
    """A text that an editor shows at `offset`, as if it were written there."""

    offset: int
    text: str


def hints(document: Document, files: Files, shown: Span) -> Iterator[Hint]:
    """
    The types of nodes in graphs that the file does not say, and the values of patterns that are
    not single tensors.
    """
    for item in document.file.items:
        if isinstance(item, ast.Test) and _touch(item.span, shown):
            for graph in _graphs(item):
                yield from _of_graph(graph)
        elif isinstance(item, ast.Pattern) and _touch(item.span, shown):
            sorts = _sorts(item.name.text, document, files)
            for statement in item.statements:
                if isinstance(statement, ast.Binding):
                    sort = sorts.get(statement.name.text)
                    if sort is not None and not isinstance(sort, Tensor):
                        yield Hint(statement.name.span.end, f": {_words(sort)}")


def inferred(definition: Definition, document: Document, files: Files) -> str:
    """What is known about a node of a graph or a value of a pattern, as text; else empty."""
    for item in document.file.items:
        if isinstance(item, ast.Test) and _within(definition.span, item.span):
            for graph in _graphs(item):
                if _within(definition.span, graph.span):
                    type_ = known_types(graph).get(definition.name)
                    return "" if type_ is None else str(type_)
        elif isinstance(item, ast.Pattern) and _within(definition.span, item.span):
            sort = _sorts(item.name.text, document, files).get(definition.name)
            return "" if sort is None else _words(sort)
    return ""


def _of_graph(graph: graph_ast.Graph) -> Iterator[Hint]:
    types = known_types(graph)
    for statement in graph.statements:
        if isinstance(statement, graph_ast.Node) and statement.type is None:
            type_ = types.get(statement.name.text)
            if type_ is not None and not isinstance(statement.value, graph_ast.Constant):
                yield Hint(statement.name.span.end, f": {type_}")


def _graphs(test: ast.Test) -> Iterator[graph_ast.Graph]:
    return (each for each in test.statements if isinstance(each, graph_ast.Graph))


def _sorts(name: str, document: Document, files: Files) -> Mapping[str, Sort]:
    """The sorts of the values of a pattern, as of the last check in which it had no mistake."""
    last = files.checks.get(document.path)
    pattern: Pattern | None = last.patterns.get(name) if last else None
    return {} if pattern is None else Sorts.of_pattern(pattern, {}).names


def _words(sort: Sort) -> str:
    """Like `(tensor, tensor)`."""
    if isinstance(sort, Tuple) and sort.fields is not None:
        return f"({', '.join(map(_words, sort.fields))})"
    return "value" if sort is None else str(sort).removeprefix("a ")


def _touch(one: Span, other: Span) -> bool:
    return one.start <= other.end and other.start <= one.end


def _within(inner: Span, outer: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end
