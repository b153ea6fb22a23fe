"""Write what this package answers as values of the Language Server Protocol."""

from collections.abc import Iterable, Sequence

from lsprotocol import types

from collage_dsl.lsp.coloring import MODIFIERS, TYPES, Colored
from collage_dsl.lsp.completion import Completion
from collage_dsl.lsp.documents import Document
from collage_dsl.lsp.folding import Fold
from collage_dsl.lsp.outline import Symbol
from collage_dsl.lsp.positions import Position
from collage_dsl.lsp.signatures import Signature
from collage_dsl.printable import printable
from collage_dsl.source import Span

_SYMBOLS = {
    "pattern": types.SymbolKind.Class,
    "class": types.SymbolKind.Enum,
    "rule": types.SymbolKind.Function,
    "target": types.SymbolKind.Module,
    "test": types.SymbolKind.Event,
    "parameter": types.SymbolKind.TypeParameter,
    "node": types.SymbolKind.Variable,
    "value": types.SymbolKind.Variable,
}

_COMPLETIONS = {
    "operator": types.CompletionItemKind.Function,
    "function": types.CompletionItemKind.Function,
    "question": types.CompletionItemKind.Function,
    "rule": types.CompletionItemKind.Function,
    "pattern": types.CompletionItemKind.Class,
    "class": types.CompletionItemKind.Enum,
    "target": types.CompletionItemKind.Module,
    "attribute": types.CompletionItemKind.Property,
    "setting": types.CompletionItemKind.Property,
    "limit": types.CompletionItemKind.Property,
    "measure": types.CompletionItemKind.Property,
    "tune": types.CompletionItemKind.Property,
    "argument": types.CompletionItemKind.Property,
    "keyword": types.CompletionItemKind.Keyword,
    "kind": types.CompletionItemKind.EnumMember,
    "primitive": types.CompletionItemKind.EnumMember,
    "variant": types.CompletionItemKind.EnumMember,
    "dtype": types.CompletionItemKind.EnumMember,
    "value": types.CompletionItemKind.Variable,
    "file": types.CompletionItemKind.File,
}


def range_of(document: Document, span: Span) -> types.Range:
    at = document.positions.position
    return types.Range(position_of(at(span.start)), position_of(at(span.end)))


def position_of(at: Position) -> types.Position:
    return types.Position(at.line, at.column)


def completion_item(found: Completion, at: types.Range) -> types.CompletionItem:
    documentation = None
    if found.documentation:
        documentation = types.MarkupContent(types.MarkupKind.Markdown, found.documentation)
    return types.CompletionItem(
        found.label,
        kind=_COMPLETIONS.get(found.sort, types.CompletionItemKind.Text),
        detail=found.detail or None,
        documentation=documentation,
        filter_text=found.label,
        text_edit=types.TextEdit(at, found.text or found.label),
    )


def document_symbol(document: Document, found: Symbol) -> types.DocumentSymbol:
    return types.DocumentSymbol(
        printable(found.name),
        _SYMBOLS.get(found.sort, types.SymbolKind.Object),
        range_of(document, found.whole),
        range_of(document, found.span),
        detail=found.sort,
        children=[document_symbol(document, each) for each in found.inside],
    )


def workspace_symbol(symbol: Symbol, at: types.Location) -> types.WorkspaceSymbol:
    kind = _SYMBOLS.get(symbol.sort, types.SymbolKind.Object)
    return types.WorkspaceSymbol(at, printable(symbol.name), kind)


def semantic_tokens(document: Document, found: Iterable[Colored]) -> types.SemanticTokens:
    """Each token as five numbers: lines and columns since the last, length, type, modifiers."""
    data: list[int] = []
    line = column = 0
    for each in found:
        start = document.positions.position(each.span.start)
        end = document.positions.position(each.span.end)
        if start.line != end.line:
            continue
        bits = sum(1 << MODIFIERS.index(modifier) for modifier in each.modifiers)
        since = start.column - (column if start.line == line else 0)
        length = end.column - start.column
        data += [start.line - line, since, length, TYPES.index(each.type), bits]
        line, column = start.line, start.column
    return types.SemanticTokens(data)


def signature_help(found: Signature) -> types.SignatureHelp:
    parameters = [types.ParameterInformation(each) for each in found.parameters]
    documentation = None
    if found.documentation:
        documentation = types.MarkupContent(types.MarkupKind.Markdown, found.documentation)
    shown = types.SignatureInformation(found.label, documentation, parameters, found.active)
    return types.SignatureHelp([shown], 0, found.active)


def folding_range(found: Fold) -> types.FoldingRange:
    return types.FoldingRange(found.first, found.last, kind=types.FoldingRangeKind(found.kind))


def text_edits(document: Document, found: Sequence[tuple[Span, str]]) -> list[types.TextEdit]:
    return [types.TextEdit(range_of(document, span), text) for span, text in found]
