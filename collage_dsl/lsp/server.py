"""Receive requests of the Language Server Protocol and answer them with this package."""

import asyncio
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from collage_dsl.diagnostics import Diagnostic
from collage_dsl.lsp import places
from collage_dsl.lsp.completion import Completion, completions
from collage_dsl.lsp.documents import Document
from collage_dsl.lsp.files import Files, Settings
from collage_dsl.lsp.formatting import formatted
from collage_dsl.lsp.hover import hover
from collage_dsl.lsp.outline import Symbol, symbols
from collage_dsl.lsp.positions import Encoding, Position
from collage_dsl.lsp.problems import problems
from collage_dsl.lsp.rename import Edit, RenameError, renamable, rename
from collage_dsl.printable import printable
from collage_dsl.source import Span

_QUIET = 0.15
"""Seconds without a change before a document is checked."""

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


class _AtPosition(Protocol):
    """The parameters of a request about a place in a document."""

    text_document: types.TextDocumentIdentifier
    position: types.Position


class Server(LanguageServer):
    """The open documents, and when each was last changed."""

    def __init__(self, settings: Callable[[Path], Settings]) -> None:
        super().__init__(
            "collage",
            version("collage_dsl"),
            text_document_sync_kind=types.TextDocumentSyncKind.Full,
        )
        self.files = Files(settings)
        self.uris: dict[Path, str] = {}
        """The editor's URIs of the open documents."""
        self.said: set[str] = set()
        self.changes = 0

    # Documents.

    def document(self, uri: str) -> Document:
        found = self.files.document(_path(uri))
        if found is None:
            raise JsonRpcInvalidParams(f"cannot read {printable(uri)}")
        return found

    def at(self, params: _AtPosition) -> tuple[Document, int]:
        document = self.document(params.text_document.uri)
        position = params.position
        return document, document.offset(position.line, position.character)

    def uri(self, path: Path) -> str:
        return self.uris.get(path) or from_fs_path(str(path)) or str(path)

    def changed(self, uri: str, text: str) -> None:
        path = _path(uri)
        self.uris[path] = uri
        self.files.open(path, text)
        self.changes += 1

    def closed(self, uri: str) -> None:
        path = _path(uri)
        self.files.close(path)
        self.uris.pop(path, None)
        self.changes += 1
        empty = types.PublishDiagnosticsParams(uri, [])
        self.text_document_publish_diagnostics(empty)

    # Diagnostics.

    async def publish_soon(self) -> None:
        """Check all open documents after a pause in typing, since one may import another."""
        seen = self.changes
        await asyncio.sleep(_QUIET)
        if seen == self.changes:
            self.publish()

    def publish(self) -> None:
        for path in tuple(self.files.texts):
            document = self.files.document(path)
            if document is not None:
                self.publish_one(document)

    def publish_one(self, document: Document) -> None:
        problem = self.files.settings(document.path).problem
        if problem and problem not in self.said:
            self.said.add(problem)
            shown = types.ShowMessageParams(types.MessageType.Warning, printable(problem))
            self.window_show_message(shown)
        found = [self.diagnostic(each, document) for each in problems(document, self.files)]
        uri = self.uri(document.path)
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found))

    def diagnostic(self, found: Diagnostic, document: Document) -> types.Diagnostic:
        severities = types.DiagnosticSeverity
        message = [found.message]
        related = []
        for note in found.notes:
            place = None if note.span is None else self.related(note.span, document)
            if place is None:
                message.append(f"note: {note.message}")
            else:
                related.append(types.DiagnosticRelatedInformation(place, note.message))
        if found.help:
            message.append(f"help: {found.help}")
        return types.Diagnostic(
            _range(document, found.span),
            "\n".join(message),
            severities.Error if found.is_error else severities.Warning,
            found.code,
            source="collage",
            related_information=related or None,
        )

    def related(self, span: Span, document: Document) -> types.Location | None:
        path = self.files.path_of(span.source, document)
        other = None if path is None else self.files.document(path)
        return None if other is None else self.location(other, span)

    def location(self, document: Document, span: Span) -> types.Location:
        return types.Location(self.uri(document.path), _range(document, span))

    def edits(self, found: Iterable[Edit]) -> types.WorkspaceEdit:
        changes: dict[str, list[types.TextEdit]] = {}
        for edit in found:
            at = _range(edit.document, edit.span)
            uri = self.uri(edit.document.path)
            changes.setdefault(uri, []).append(types.TextEdit(at, edit.text))
        return types.WorkspaceEdit(changes)


def make_server(settings: Callable[[Path], Settings]) -> Server:
    """A server with all its handlers; `settings` gives the settings of a file's repository."""
    server = Server(settings)
    _lifecycle(server)
    _questions(server)
    _changes(server)
    return server


def _lifecycle(server: Server) -> None:
    @server.feature(types.INITIALIZED)
    def initialized(params: types.InitializedParams) -> None:
        folders = (_path(each.uri) for each in server.workspace.folders.values())
        root = server.workspace.root_path
        server.files.folders = tuple(folders) or ((Path(root),) if root else ())
        encodings: dict[object, Encoding] = {"utf-8": "utf-8", "utf-32": "utf-32"}
        server.files.encoding = encodings.get(server.workspace.position_encoding, "utf-16")

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: types.DidOpenTextDocumentParams) -> None:
        server.changed(params.text_document.uri, params.text_document.text)
        await server.publish_soon()

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: types.DidChangeTextDocumentParams) -> None:
        uri = params.text_document.uri
        server.changed(uri, server.workspace.get_text_document(uri).source)
        await server.publish_soon()

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def saved(params: types.DidSaveTextDocumentParams) -> None:
        await server.publish_soon()

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        server.closed(params.text_document.uri)

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def watched(params: types.DidChangeWatchedFilesParams) -> None:
        await server.publish_soon()


def _questions(server: Server) -> None:
    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def on_hover(params: types.HoverParams) -> types.Hover | None:
        document, offset = server.at(params)
        found = hover(document, offset, server.files)
        if found is None:
            return None
        content = types.MarkupContent(types.MarkupKind.Markdown, found.text)
        return types.Hover(content, _range(document, found.span))

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def on_definition(params: types.DefinitionParams) -> types.Location | None:
        found = places.definition(*server.at(params), server.files)
        return None if found is None else server.location(*found)

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    def on_references(params: types.ReferenceParams) -> list[types.Location]:
        found = places.references(*server.at(params), server.files)
        return [server.location(*place) for place in found]

    @server.feature(
        types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=[".", '"'])
    )
    def on_completion(params: types.CompletionParams) -> list[types.CompletionItem]:
        document, offset = server.at(params)
        span, found = completions(document, offset, server.files)
        at = _range(document, span)
        return [_completion(each, at) for each in found]

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def on_symbols(params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        document = server.document(params.text_document.uri)
        return [_symbol(document, each) for each in symbols(document)]


def _changes(server: Server) -> None:
    @server.feature(types.TEXT_DOCUMENT_FORMATTING)
    def on_formatting(params: types.DocumentFormattingParams) -> list[types.TextEdit] | None:
        document = server.document(params.text_document.uri)
        found = formatted(document)
        return None if found is None else [types.TextEdit(_range(document, found[0]), found[1])]

    @server.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)
    def on_prepare(params: types.PrepareRenameParams) -> types.Range:
        document, offset = server.at(params)
        try:
            return _range(document, renamable(document, offset, server.files))
        except RenameError as problem:
            raise JsonRpcInvalidParams(printable(str(problem))) from None

    @server.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))
    def on_rename(params: types.RenameParams) -> types.WorkspaceEdit:
        document, offset = server.at(params)
        try:
            return server.edits(rename(document, offset, params.new_name, server.files))
        except RenameError as problem:
            raise JsonRpcInvalidParams(printable(str(problem))) from None


def _path(uri: str) -> Path:
    """The file of `uri`; the name of a text that was never saved."""
    path = to_fs_path(uri) if uri.startswith("file:") else None
    try:
        return Path(uri) if path is None else Path(path).resolve()
    except (OSError, ValueError) as problem:
        raise JsonRpcInvalidParams(f"no file can be named {uri}: {problem}") from None


def _range(document: Document, span: Span) -> types.Range:
    at = document.positions.position
    return types.Range(_position(at(span.start)), _position(at(span.end)))


def _position(at: Position) -> types.Position:
    return types.Position(at.line, at.column)


def _completion(found: Completion, at: types.Range) -> types.CompletionItem:
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


def _symbol(document: Document, found: Symbol) -> types.DocumentSymbol:
    return types.DocumentSymbol(
        printable(found.name),
        _SYMBOLS.get(found.sort, types.SymbolKind.Object),
        _range(document, found.whole),
        _range(document, found.span),
        detail=found.sort,
        children=[_symbol(document, each) for each in found.inside],
    )
