"""An editor that talks to `collage lsp`, a process, on its standard input and output."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from lsprotocol import types
from pygls.lsp.client import LanguageClient


class Editor:
    """An editor with one folder open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client = LanguageClient("editor", "1")
        self.published: dict[str, list[types.Diagnostic]] = {}
        self.news = asyncio.Event()
        self.opened: list[str] = []

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def note(params: types.PublishDiagnosticsParams) -> None:
            self.published[params.uri] = list(params.diagnostics)
            self.news.set()

    async def start(
        self, capabilities: types.ClientCapabilities | None = None
    ) -> types.InitializeResult:
        command = [sys.executable, "-m", "collage_dsl.cli.main", "lsp", "--stdio"]
        path = os.pathsep.join([str(self.folder), os.environ.get("PYTHONPATH", "")])
        await self.client.start_io(*command, env={**os.environ, "PYTHONPATH": path})
        folders = [types.WorkspaceFolder(self.folder.as_uri(), "here")]
        can = capabilities or types.ClientCapabilities()
        said = types.InitializeParams(can, workspace_folders=folders)
        found = await self.client.initialize_async(said)
        self.client.initialized(types.InitializedParams())
        return found

    async def stop(self) -> None:
        await self.client.shutdown_async(None)
        self.client.exit(None)
        await self.client.stop()

    def move(self, folder: Path) -> None:
        """Close the files and the folder that are open, and open another folder."""
        for uri in self.opened:
            document = types.TextDocumentIdentifier(uri)
            self.client.text_document_did_close(types.DidCloseTextDocumentParams(document))
        self.opened.clear()
        before, after = (types.WorkspaceFolder(f.as_uri(), "here") for f in (self.folder, folder))
        event = types.WorkspaceFoldersChangeEvent([after], [before])
        said = types.DidChangeWorkspaceFoldersParams(event)
        self.client.workspace_did_change_workspace_folders(said)
        self.folder = folder

    def open(self, name: str, text: str) -> str:
        uri = (self.folder / name).as_uri()
        self.opened.append(uri)
        item = types.TextDocumentItem(uri, "collage", 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return uri

    def change(self, uri: str, text: str) -> None:
        whole = types.TextDocumentContentChangeWholeDocument(text)
        document = types.VersionedTextDocumentIdentifier(2, uri)
        self.published.pop(uri, None)
        said = types.DidChangeTextDocumentParams(document, [whole])
        self.client.text_document_did_change(said)

    async def diagnostics(self, uri: str) -> list[types.Diagnostic]:
        while uri not in self.published or not self.news.is_set():
            self.news.clear()
            await asyncio.wait_for(self.news.wait(), 30)
        return self.published[uri]


def drive(folder: Path, journey: Callable[[Editor], Awaitable[None]]) -> None:
    async def whole() -> None:
        editor = Editor(folder)
        await editor.start()
        try:
            await asyncio.wait_for(journey(editor), 60)
        finally:
            await editor.stop()

    asyncio.run(whole())


class Served:
    """One server for several journeys, each in a folder of its own. Its start takes a second."""

    def __init__(self, folder: Path) -> None:
        self.editor = Editor(folder)
        self.runner = asyncio.Runner()
        self.runner.run(self.editor.start())

    def drive(self, folder: Path, journey: Callable[[Editor], Awaitable[None]]) -> None:
        async def whole() -> None:
            self.editor.move(folder)
            await asyncio.wait_for(journey(self.editor), 60)

        self.runner.run(whole())

    def stop(self) -> None:
        self.runner.run(self.editor.stop())
        self.runner.close()
