"""What an editor may send to the language server: mostly what it may not."""

import json
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.folders import VALUES
from tests.fuzz.protobuf import damaged
from tests.test_language_fuzz import SPEC

QUESTIONS = (
    *("hover", "definition", "references", "completion", "documentSymbol", "formatting"),
    *("prepareRename", "rename"),
)
NOTES = ("didOpen", "didChange", "didSave", "didClose")


def conversation(seed: int, folder: Path, requests: int) -> bytes:
    """Requests on standard input of the server, between a greeting and a farewell."""
    chosen = Random(seed)
    uri = (folder / "a.collage").as_uri()
    said = [
        request(chosen, number, uri, changed=chosen.random() < 0.7) for number in range(requests)
    ]
    hello = {"capabilities": {}, "processId": None, "rootUri": folder.as_uri()}
    messages = [
        message("initialize", hello, -1),
        message("initialized", {}),
        message("textDocument/didOpen", opened(uri)),
        *said,
        message("shutdown", None, -2),
        message("exit", None),
    ]
    return b"".join(messages)


def request(chosen: Random, number: int, uri: str, changed: bool) -> bytes:
    name = chosen.choice((*QUESTIONS, *QUESTIONS, *NOTES))
    place = {"line": chosen.choice((0, 3, 5, 9, 10**6)), "character": chosen.choice((0, 4, 9, 70))}
    params: dict[str, Any] = {"textDocument": {"uri": uri, "version": number}, "position": place}
    params |= {"context": {"includeDeclaration": True}, "newName": "other", "options": {}}
    params["options"] = {"tabSize": 2, "insertSpaces": True}
    params["contentChanges"] = [{"text": SPEC[: chosen.randrange(len(SPEC))]}]
    if name == "didOpen":
        params = opened(uri)
    if changed:
        change(params, chosen)
    made = message(f"textDocument/{name}", params, None if name in NOTES else number)
    return body_damaged(made, chosen) if chosen.random() < 0.05 else made


def opened(uri: str) -> dict[str, Any]:
    item = {"uri": uri, "languageId": "collage", "version": 1, "text": SPEC}
    return {"textDocument": item}


def change(params: dict[str, Any], chosen: Random) -> None:
    """Give one field of `params`, at any depth, another value."""
    holder: dict[str, Any] = params
    while (inner := [v for v in holder.values() if isinstance(v, dict)]) and chosen.random() < 0.6:
        holder = chosen.choice(inner)
    name = chosen.choice(sorted(holder))
    uris = ("file:///a%00b", "file://\0", "untitled:1", "http://[", "file://" + "a" * 9999, "a b")
    holder[name] = chosen.choice(uris if name == "uri" else VALUES)


def message(method: str, params: object, number: int | None = None) -> bytes:
    said: dict[str, object] = {"jsonrpc": "2.0", "method": method, "params": params}
    if number is not None:
        said["id"] = number
    return framed(json.dumps(said).encode())


def framed(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def body_damaged(made: bytes, chosen: Random) -> bytes:
    return framed(damaged(made.partition(b"\r\n\r\n")[2], chosen))


def answers(output: bytes) -> list[dict[str, Any]]:
    """The messages that the server sent."""
    found = []
    while output:
        head, _, output = output.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split()[0])
        found.append(json.loads(output[:length]))
        output = output[length:]
    return found
