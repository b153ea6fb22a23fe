"""A language server in this process, which is sent messages and keeps what it sends."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from collage_dsl.lsp.server import Server

URI = "untitled:a"
ABOUT = {"textDocument": {"uri": URI}}
PUBLISH = "textDocument/publishDiagnostics"


class Connection:
    """A server in this process, and what it has sent."""

    def __init__(self, server: Server, folders: Sequence[Path] = ()) -> None:
        self.server = server
        self.sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.server.protocol.set_writer(self, include_headers=False)
        folders = [{"uri": each.as_uri(), "name": each.name} for each in folders]
        self.send("initialize", 0, capabilities={}, processId=None, workspaceFolders=folders)
        self.send("initialized")
        self.last = 0

    def write(self, data: bytes) -> None:
        self.sent.put_nowait(json.loads(data))

    def close(self) -> None:
        """The server does not close what it has sent."""

    def send(self, method: str, number: int | None = None, **params: object) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        numbered = message if number is None else {**message, "id": number}
        self.server.protocol.handle_message(self.server.protocol.structure_message(numbered))

    def open(self, text: str, uri: str = URI) -> None:
        item = {"uri": uri, "languageId": "collage", "version": 1, "text": text}
        self.send("textDocument/didOpen", textDocument=item)

    def change(self, text: str, uri: str = URI) -> None:
        changed = {"uri": uri, "version": 2}
        self.send("textDocument/didChange", textDocument=changed, contentChanges=[{"text": text}])

    async def answer(self, number: int) -> dict[str, Any]:
        """The answer to request `number`, which is the next one."""
        while "id" not in (found := await asyncio.wait_for(self.sent.get(), 60)):
            pass
        assert found["id"] == number
        return found

    async def ask(self, method: str, **params: object) -> Any:
        self.last += 1
        self.send(method, self.last, **params)
        answer = await self.answer(self.last)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    async def refusal(self, method: str, **params: object) -> tuple[int, str]:
        """The code and message of the error that answers this request."""
        self.last += 1
        self.send(method, self.last, **params)
        error = (await self.answer(self.last))["error"]
        return error["code"], error["message"]

    async def findings(self, uri: str = URI) -> list[str]:
        """The codes of the diagnostics of `uri` that are published next."""
        while True:
            found = await asyncio.wait_for(self.sent.get(), 60)
            if found.get("method") == PUBLISH and found["params"]["uri"] == uri:
                return [each["code"] for each in found["params"]["diagnostics"]]

    async def error(self, number: int) -> int | None:
        error: dict[str, int] = (await self.answer(number)).get("error", {})
        return error.get("code")


def connected(
    server: Server, journey: Callable[[Connection], Awaitable[None]], *folders: Path
) -> None:
    async def whole() -> None:
        connection = Connection(server, folders)
        await connection.answer(0)
        await journey(connection)

    asyncio.run(whole())
