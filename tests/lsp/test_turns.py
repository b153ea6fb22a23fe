"""Requests are answered one after another, while the messages after them are read."""

import asyncio
import gc
import weakref
from pathlib import Path
from threading import Event
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcContentModified, JsonRpcRequestCancelled

from collage_dsl.diagnostics import Diagnostic
from collage_dsl.lsp import server as server_module
from collage_dsl.lsp.documents import Document
from collage_dsl.lsp.files import Files, no_settings
from collage_dsl.lsp.requests import make_server
from collage_dsl.lsp.server import Server
from tests.lsp.connection import ABOUT, URI, Connection, connected


class Slow:
    """A handler that begins with a request and ends when it is told to."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.began = Event()
        self.may_end = Event()

    def __call__(self, params: types.HoverParams | types.RenameParams) -> None:
        self.asked.append(params.position.line)
        if params.position.line == 1:
            self.began.set()
            self.may_end.wait(60)


def slow_server(slow: Slow) -> Server:
    server = Server(no_settings)
    server.answers(types.TEXT_DOCUMENT_HOVER)(slow)
    server.edits_text(types.TEXT_DOCUMENT_PREPARE_RENAME)(slow)
    return server


def test_a_cancelled_request_is_answered_at_once_and_delays_no_other() -> None:
    slow = Slow()

    async def journey(connection: Connection) -> None:
        for number in (1, 2, 3):
            at = {"line": number, "character": 0}
            connection.send("textDocument/hover", number, **ABOUT, position=at)
        await asyncio.to_thread(slow.began.wait)

        connection.send("$/cancelRequest", id=2)
        assert await connection.error(2) == JsonRpcRequestCancelled.CODE
        connection.send("$/cancelRequest", id=1)
        assert await connection.error(1) == JsonRpcRequestCancelled.CODE
        assert "error" not in await connection.answer(3)
        assert slow.asked == [1, 3]
        slow.may_end.set()

    connected(slow_server(slow), journey)


def test_shutdown_does_not_wait_for_a_request() -> None:
    slow = Slow()

    async def journey(connection: Connection) -> None:
        connection.send("textDocument/hover", 1, **ABOUT, position={"line": 1, "character": 0})
        await asyncio.to_thread(slow.began.wait)
        connection.send("shutdown", 2)
        assert "error" not in await connection.answer(2)
        assert await connection.error(1) == JsonRpcRequestCancelled.CODE
        slow.may_end.set()

    connected(slow_server(slow), journey)


def test_edits_of_a_text_that_has_changed_since_are_refused() -> None:
    slow = Slow()
    at = {"line": 1, "character": 0}
    method = "textDocument/prepareRename"

    async def journey(connection: Connection) -> None:
        connection.server.changed(URI, "one")
        connection.send(method, 1, **ABOUT, position=at)
        connection.send(method, 2, **ABOUT, position=at)
        await asyncio.to_thread(slow.began.wait)
        connection.server.changed(URI, "two")
        connection.send(method, 3, **ABOUT, position=at)
        slow.may_end.set()

        assert await connection.error(1) == JsonRpcContentModified.CODE
        assert await connection.error(2) == JsonRpcContentModified.CODE
        assert await connection.error(3) is None
        assert slow.asked == [1, 1]

    connected(slow_server(slow), journey)


def test_edits_of_another_text_that_has_changed_since_are_refused() -> None:
    slow, other = Slow(), f"{URI}.other"
    server = Server(no_settings)

    @server.edits_text(types.TEXT_DOCUMENT_RENAME)
    def rename(params: types.RenameParams) -> types.WorkspaceEdit:
        slow(params)
        return types.WorkspaceEdit({URI: [], other: []})

    async def journey(connection: Connection) -> None:
        at = {"line": 1, "character": 0}
        connection.server.changed(URI, "one")
        connection.server.changed(other, "one")
        connection.send("textDocument/rename", 1, **ABOUT, position=at, newName="a")
        await asyncio.to_thread(slow.began.wait)
        connection.server.changed(other, "two")
        connection.send("textDocument/rename", 2, **ABOUT, position=at, newName="a")
        slow.may_end.set()

        assert await connection.error(1) == JsonRpcContentModified.CODE
        assert "error" not in await connection.answer(2)

    connected(server, journey)


def test_only_the_last_of_many_texts_is_parsed_and_checked(monkeypatch: Any) -> None:
    checked: list[str] = []
    problems = server_module.problems

    def noted(document: Document, files: Files) -> tuple[Diagnostic, ...]:
        checked.append(document.text)
        return problems(document, files)

    monkeypatch.setattr(server_module, "problems", noted)
    texts = [f"collage 1; pattern p{n}(x) {{ y = nn.rellu(x); yield y; }}" for n in range(20)]

    async def journey(connection: Connection) -> None:
        connection.open("")
        for number, text in enumerate(texts, 1):
            connection.change(text)
            connection.send("textDocument/semanticTokens/full", number, **ABOUT)
            if number < len(texts):
                connection.send("$/cancelRequest", id=number)
        connection.send("textDocument/didSave", **ABOUT)
        for number in range(1, len(texts)):
            assert await connection.error(number) == JsonRpcRequestCancelled.CODE
        assert (await connection.answer(len(texts)))["result"]["data"]
        assert await connection.findings() == ["E0201"]

    server = make_server(no_settings)
    connected(server, journey)

    assert checked == texts[-1:]
    assert server.files._parsed == {}
    document = server.files.document(Path(URI))
    assert document is not None
    assert document.is_parsed


def test_garbage_in_cycles_is_collected_when_the_editor_is_quiet(monkeypatch: Any) -> None:
    monkeypatch.setattr(server_module, "_IDLE", 0.0)
    cycle = Slow()
    cycle.itself = cycle  # type: ignore[attr-defined]
    left = weakref.ref(cycle)
    del cycle

    async def journey(connection: Connection) -> None:
        connection.open("collage 1;")
        while left() is not None:
            await asyncio.sleep(0.01)

    gc.disable()
    try:
        connected(make_server(no_settings), journey)
    finally:
        gc.enable()

    assert left() is None
