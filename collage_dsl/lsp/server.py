"""Follow the open documents of an editor, and publish what is wrong with them."""

import asyncio
import gc
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from lsprotocol import types
from pygls.exceptions import (
    FeatureNotificationError,
    JsonRpcContentModified,
    JsonRpcInvalidParams,
)
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from collage_dsl.diagnostics import Diagnostic
from collage_dsl.lsp.actions import Action
from collage_dsl.lsp.converting import range_of
from collage_dsl.lsp.documents import Document
from collage_dsl.lsp.files import Files, Settings
from collage_dsl.lsp.moved import Moved, moved
from collage_dsl.lsp.positions import Encoding
from collage_dsl.lsp.problems import problems
from collage_dsl.lsp.protocol import AnsweringProtocol, log_refusals_shortly, strict_converter
from collage_dsl.lsp.rename import Edit
from collage_dsl.printable import printable
from collage_dsl.reading import real_path
from collage_dsl.source import Span

_QUIET = 0.05
"""Seconds without a change before a document is checked."""

_IDLE = 2.0
"""Seconds after a check, without a change, until garbage in cycles is collected."""

_WATCHED = ("*.collage", "pyproject.toml")
"""Files whose changes on disk matter to open documents."""


class _AboutDocument(Protocol):
    """The parameters of a request about a document."""

    text_document: types.TextDocumentIdentifier


class _AtPosition(_AboutDocument, Protocol):
    """The parameters of a request about a place in a document."""

    position: types.Position


Answer = Callable[[Any], Any]
"""Computes the answer to a request from its parameters."""


class Server(LanguageServer):
    """The open documents, and the requests about them."""

    def __init__(self, settings: Callable[[Path], Settings]) -> None:
        super().__init__(
            "collage",
            version("collage_dsl"),
            text_document_sync_kind=types.TextDocumentSyncKind.Full,
            protocol_cls=AnsweringProtocol,
            converter_factory=strict_converter,
        )
        log_refusals_shortly()
        self.files = Files(settings)
        self.uris: dict[Path, str] = {}
        """The editor's URIs of the open documents."""
        self.said: set[str] = set()
        self.asked = 0
        """How often a check of the open documents was asked for."""
        self.checking: asyncio.Task[None] | None = None
        self.collecting: asyncio.TimerHandle | None = None
        self.answering = asyncio.Lock()

    @property
    def is_broken_off(self) -> bool:
        """Whether the editor has left without `shutdown`."""
        return isinstance(self.protocol, AnsweringProtocol) and self.protocol.is_broken_off

    # Requests.

    def answers(self, method: str, options: object = None) -> Callable[[Answer], Answer]:
        """
        Register a function that answers a request about the text when its turn comes. It runs in
        a thread, and further messages are read meanwhile. One of them may cancel the request.
        """

        def register(answer: Answer) -> Answer:
            # Not `object`: pygls would take the function for one that wants the server.
            async def answered(params: Any) -> object:
                return await self._in_turn(answer, params)

            self.feature(method, options)(answered)
            return answer

        return register

    def edits_text(self, method: str, options: object = None) -> Callable[[Answer], Answer]:
        """Like `answers`. The request is refused if a text that it edits changes meanwhile."""

        def register(answer: Answer) -> Answer:
            async def answered(params: _AboutDocument) -> object:
                path = _path(params.text_document.uri)
                texts = dict(self.files.texts)

                def answer_unchanged(params: object) -> object:
                    self._check_unchanged(path, texts)
                    return answer(params)

                found = await self._in_turn(answer_unchanged, params)
                for each in (path, *_edited(found)):
                    self._check_unchanged(each, texts)
                return found

            self.feature(method, options)(answered)
            return answer

        return register

    async def _in_turn(self, answer: Answer, params: object) -> object:
        async with self.answering:
            return await asyncio.to_thread(answer, params)

    def _check_unchanged(self, path: Path, texts: Mapping[Path, str]) -> None:
        if self.files.texts.get(path) is not texts.get(path):
            raise JsonRpcContentModified("the text has changed since this was asked")

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

    def settled(self, params: _AtPosition) -> tuple[Document, int, Moved | None]:
        """
        Like `at`; in the last text that was parsed, if the line has not changed since. One who asks
        right after a change need not wait then.
        """
        document, offset = self.at(params)
        last = self.files.last_parsed(document)
        if last is document:
            return document, offset, None
        change = moved(last, document)
        old = change.before(offset)
        return (document, offset, None) if old is None else (last, old, change)

    def set_folders(self) -> None:
        folders = (_path(each.uri) for each in self.workspace.folders.values())
        root = self.workspace.root_path
        self.files.folders = tuple(folders) or ((Path(root),) if root else ())

    def watch_files(self) -> None:
        """Ask an editor that can tell it when files change on disk to do so."""
        workspace = self.client_capabilities.workspace
        watched = workspace.did_change_watched_files if workspace else None
        if watched is not None and watched.dynamic_registration:
            method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
            watchers = [types.FileSystemWatcher(f"**/{name}") for name in _WATCHED]
            options = types.DidChangeWatchedFilesRegistrationOptions(watchers)
            asked = types.RegistrationParams([types.Registration("files", method, options)])
            self.client_register_capability(asked)

    def uri(self, path: Path) -> str:
        return self.uris.get(path) or from_fs_path(str(path)) or str(path)

    def changed(self, uri: str, text: str) -> None:
        path = _path(uri)
        self.uris[path] = uri
        if text.startswith("\ufeff"):  # A byte order mark is no text; the columns remain.
            text = f" {text[1:]}"
        self.files.open(path, text)

    def closed(self, uri: str) -> None:
        path = _path(uri)
        self.files.close(path)
        self.uris.pop(path, None)
        empty = types.PublishDiagnosticsParams(uri, [])
        self.text_document_publish_diagnostics(empty)

    # Diagnostics.

    def check_soon(self) -> None:
        """Check all open documents after a pause in typing, since one may import another."""
        self.asked += 1
        if self.collecting is not None:
            self.collecting.cancel()
        if self.checking is None or self.checking.done():
            self.checking = asyncio.create_task(self._check())
            self.checking.add_done_callback(self._report_failure)

    async def _check(self) -> None:
        asked = 0
        while asked != self.asked:
            asked = self.asked
            await asyncio.sleep(_QUIET)
            for path in tuple(self.files.texts):
                document = self.files.document(path)
                if document is not None and asked == self.asked:
                    # In a thread, so that questions are answered meanwhile.
                    found = await asyncio.to_thread(problems, document, self.files)
                    if asked == self.asked:
                        self.publish(document, found)
        self.collecting = asyncio.get_running_loop().call_later(_IDLE, gc.collect)

    def _report_failure(self, checking: asyncio.Task[None]) -> None:
        if not checking.cancelled() and isinstance(problem := checking.exception(), Exception):
            self.report_server_error(problem, FeatureNotificationError)

    def publish(self, document: Document, problems: Iterable[Diagnostic]) -> None:
        problem = self.files.settings(document.path).problem
        if problem and problem not in self.said:
            self.said.add(problem)
            shown = types.ShowMessageParams(types.MessageType.Warning, printable(problem))
            self.window_show_message(shown)
        found = [self.diagnostic(each, document) for each in problems]
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
            range_of(document, found.span),
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
        return types.Location(self.uri(document.path), range_of(document, span))

    def span(self, document: Document, found: types.Range) -> Span:
        start = document.offset(found.start.line, found.start.character)
        end = document.offset(found.end.line, found.end.character)
        return Span(document.source, start, max(start, end))

    def action(
        self, found: Action, kind: types.CodeActionKind, *, preferred: bool = False
    ) -> types.CodeAction:
        document = found.edits[0].document
        return types.CodeAction(
            printable(found.title),
            kind,
            [self.diagnostic(each, document) for each in found.findings],
            preferred or None,
            edit=self.edits(found.edits),
        )

    def edits(self, found: Iterable[Edit]) -> types.WorkspaceEdit:
        changes: dict[str, list[types.TextEdit]] = {}
        for edit in found:
            at = range_of(edit.document, edit.span)
            uri = self.uri(edit.document.path)
            changes.setdefault(uri, []).append(types.TextEdit(at, edit.text))
        return types.WorkspaceEdit(changes)


def follow_documents(server: Server) -> None:
    @server.feature(types.INITIALIZED)
    def initialized(params: types.InitializedParams) -> None:
        server.set_folders()
        encodings: dict[object, Encoding] = {"utf-8": "utf-8", "utf-32": "utf-32"}
        server.files.encoding = encodings.get(server.workspace.position_encoding, "utf-16")
        server.watch_files()

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def folders_changed(params: types.DidChangeWorkspaceFoldersParams) -> None:
        server.set_folders()

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        server.changed(params.text_document.uri, params.text_document.text)
        server.check_soon()

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeTextDocumentParams) -> None:
        uri = params.text_document.uri
        server.changed(uri, server.workspace.get_text_document(uri).source)
        server.check_soon()

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: types.DidSaveTextDocumentParams) -> None:
        server.check_soon()

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        server.closed(params.text_document.uri)
        server.check_soon()  # others may import it, and now read what is on disk

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def watched(params: types.DidChangeWatchedFilesParams) -> None:
        server.check_soon()


def _edited(answer: object) -> Iterable[Path]:
    """The files that an answer edits beside the document that it is about."""
    return map(_path, answer.changes or ()) if isinstance(answer, types.WorkspaceEdit) else ()


def _path(uri: str) -> Path:
    """The file of `uri`; the name of a text that was never saved."""
    try:
        path = to_fs_path(uri) if uri.startswith("file:") else None
        return Path(uri) if path is None else real_path(path)
    except (OSError, ValueError) as problem:
        raise JsonRpcInvalidParams(f"no file can be named {uri}: {problem}") from None
