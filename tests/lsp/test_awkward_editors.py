"""What editors send that is rare: odd names of files, positions, line ends, orders, and types."""

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pygls.exceptions import JsonRpcInvalidParams, JsonRpcInvalidRequest

from collage_dsl.lsp.files import no_settings
from collage_dsl.lsp.requests import make_server
from tests.lsp.connection import ABOUT, URI, Connection, connected
from tests.lsp.test_server import INITIALIZE, _framed, _serve

LIBRARY = "collage 1;\n\npattern act(x) {\n  y = nn.relu(x);\n  yield y;\n}\n"
USER = """\
collage 1;

import "lib.collage" only (act);

pattern p(a, b) {
  c = act(add(a, b));
  yield c;
}

target t on llvm {
  rules dfpattern(p);
}
"""
OPENED = {"uri": URI, "languageId": "collage", "version": 1, "text": USER}
HOVER = {
    "method": "textDocument/hover",
    "params": {**ABOUT, "position": {"line": 5, "character": 7}},
}
ACT = {"line": 5, "character": 7}


def place(line: int, start: int, end: int) -> dict[str, object]:
    ends = {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}
    return {"range": ends}


# Orders.


def test_a_notification_before_initialize_is_dropped() -> None:
    messages = [
        {"method": "textDocument/didOpen", "params": {"textDocument": OPENED}},
        {"method": "initialized", "params": {}},
        INITIALIZE,
        {"id": 2, "method": "shutdown"},
        {"method": "exit"},
    ]

    answers, code = _serve(*messages)

    assert code == 0
    assert set(answers) == {1, 2}, "no message says that something went wrong"


def test_a_second_initialize_is_refused() -> None:
    end = ({"id": 3, "method": "shutdown"}, {"method": "exit"})
    answers, _ = _serve(INITIALIZE, {**INITIALIZE, "id": 2}, *end)

    assert "result" in answers[1]
    assert answers[2]["error"]["code"] == JsonRpcInvalidRequest.CODE


@pytest.mark.parametrize("end", [({"method": "exit"},), ()], ids=["exit", "end of input"])
def test_a_server_that_is_left_while_it_works_says_nothing(end: tuple[dict[str, object]]) -> None:
    opened = {"method": "textDocument/didOpen", "params": {"textDocument": OPENED}}
    given = _framed(INITIALIZE, opened, {"id": 2, **HOVER}, *end)
    command = [sys.executable, "-m", "collage_dsl.cli.main", "lsp"]

    done = subprocess.run(command, input=given, capture_output=True, timeout=60)

    assert done.stderr == b""


def test_the_cancellation_of_an_answered_request_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def journey(connection: Connection) -> None:
        connection.open(USER)
        await connection.ask("textDocument/hover", **ABOUT, position=ACT)
        with caplog.at_level(logging.WARNING):
            connection.send("$/cancelRequest", id=1)
        assert caplog.messages == []

    connected(make_server(no_settings), journey)


# Types and positions.


@pytest.mark.parametrize("line", ["0", 1.5, True, None, -1, 2**31])
def test_a_line_that_is_no_whole_number_of_the_protocol_is_refused(line: object) -> None:
    async def journey(connection: Connection) -> None:
        connection.open(USER)
        at = {"line": line, "character": 0}
        code, _ = await connection.refusal("textDocument/hover", **ABOUT, position=at)
        assert code == JsonRpcInvalidParams.CODE

    connected(make_server(no_settings), journey)


def test_a_truth_that_is_a_number_is_refused() -> None:
    async def journey(connection: Connection) -> None:
        connection.open(USER)
        options: dict[str, object] = {"tabSize": 2, "insertSpaces": True}
        assert await connection.ask("textDocument/formatting", **ABOUT, options=options) is None
        options["insertSpaces"] = 1
        code, said = await connection.refusal("textDocument/formatting", **ABOUT, options=options)
        assert code == JsonRpcInvalidParams.CODE
        assert "true or false is needed, not int" in said

    connected(make_server(no_settings), journey)


@pytest.mark.parametrize("text", ["", USER], ids=["empty", "full"])
@pytest.mark.parametrize("line", [0, 2**31 - 1])
def test_every_question_has_an_answer_at_any_position(text: str, line: int) -> None:
    at = {"line": line, "character": 2**31 - 1}
    whole = {"start": {"line": 0, "character": 0}, "end": at}
    options = {"tabSize": 2, "insertSpaces": True}
    questions: dict[str, dict[str, object]] = {
        "hover": {"position": at},
        "definition": {"position": at},
        "completion": {"position": at},
        "documentHighlight": {"position": at},
        "signatureHelp": {"position": at},
        "documentSymbol": {},
        "semanticTokens/full": {},
        "foldingRange": {},
        "references": {"position": at, "context": {"includeDeclaration": True}},
        "formatting": {"options": options},
        "rangeFormatting": {"options": options, "range": whole},
        "codeAction": {"range": whole, "context": {"diagnostics": []}},
        "inlayHint": {"range": whole},
    }

    async def journey(connection: Connection) -> None:
        connection.open(text)
        for method, params in questions.items():
            await connection.ask(f"textDocument/{method}", **ABOUT, **params)

    connected(make_server(no_settings), journey)


# Names of files.


@pytest.mark.parametrize(
    "uri",
    [
        "untitled:Untitled-1",
        "untitled:/tmp/new%20file.collage",
        "vscode-vfs://github/x/a.collage",
        "file:///tmp/two%20words/f%C3%A9%23%3F.collage",
        "file:///none/per%2520cent.collage",
        "file:///none/%ff.collage",
    ],
)
def test_answers_use_the_uri_of_the_editor(uri: str) -> None:
    async def journey(connection: Connection) -> None:
        connection.open(LIBRARY.replace("nn.relu", "nn.rellu"), uri)
        assert await connection.findings(uri) == ["E0201"]
        about = {"textDocument": {"uri": uri}, "position": {"line": 2, "character": 9}}
        found = await connection.ask("textDocument/definition", **about)
        assert found["uri"] == uri
        edits = await connection.ask("textDocument/rename", **about, newName="active")
        assert list(edits["changes"]) == [uri]

    connected(make_server(no_settings), journey)


def test_a_uri_that_is_none_is_refused() -> None:
    async def journey(connection: Connection) -> None:
        about = {"textDocument": {"uri": "file://[bad/a.collage"}}
        code, said = await connection.refusal("textDocument/documentSymbol", **about)
        assert code == JsonRpcInvalidParams.CODE
        assert "file://[bad/a.collage" in said

    connected(make_server(no_settings), journey)


# Files that change.


def test_two_folders_unsaved_changes_and_one_rename(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two words"
    for folder in (one, two):
        folder.mkdir()
    (one / "lib.collage").write_text(LIBRARY, "utf-8")
    (one / "user.collage").write_text(USER, "utf-8")
    path = os.path.join("..", "one", "lib.collage").replace(os.sep, "/")
    (two / "user.collage").write_text(USER.replace("lib.collage", path), "utf-8")
    library, user = ((one / f"{name}.collage").as_uri() for name in ("lib", "user"))

    async def journey(connection: Connection) -> None:
        connection.open(USER, user)
        assert await connection.findings(user) == []
        connection.open(LIBRARY.replace("act", "other"), library)
        assert await connection.findings(user) == ["E0803"]
        connection.change(f"# First.\n{LIBRARY}", library)
        assert await connection.findings(user) == []
        about = {"textDocument": {"uri": user}, "position": ACT}
        found = await connection.ask("textDocument/rename", **about, newName="active")
        lines = {
            Path(uri).parent.name: [each["range"]["start"]["line"] for each in edits]
            for uri, edits in found["changes"].items()
            if uri != library
        }
        assert lines == {"one": [2, 5], "two%20words": [2, 5]}
        assert [each["range"]["start"]["line"] for each in found["changes"][library]] == [3]

    connected(make_server(no_settings), journey, one, two)


def test_a_file_that_comes_and_goes_on_disk_counts_at_once(tmp_path: Path) -> None:
    library, user = tmp_path / "lib.collage", (tmp_path / "user.collage").as_uri()

    async def journey(connection: Connection) -> None:
        def tell() -> None:
            changes = [{"uri": library.as_uri(), "type": 2}]
            connection.send("workspace/didChangeWatchedFiles", changes=changes)

        connection.open(USER, user)
        assert await connection.findings(user) == ["E0801"]
        library.write_text(LIBRARY, "utf-8")
        tell()
        assert await connection.findings(user) == []
        library.rename(tmp_path / "renamed.collage")
        tell()
        assert await connection.findings(user) == ["E0801"]

    connected(make_server(no_settings), journey, tmp_path)


# What is asked for.


def test_references_are_without_the_definition_if_the_editor_says_so(tmp_path: Path) -> None:
    library, user = ((tmp_path / f"{name}.collage").as_uri() for name in ("lib", "user"))

    async def journey(connection: Connection) -> None:
        connection.open(LIBRARY, library)
        connection.open(USER, user)
        about: dict[str, Any] = {"textDocument": {"uri": user}, "position": ACT}
        found = {}
        for wanted in (True, False):
            context = {"includeDeclaration": wanted}
            places = await connection.ask("textDocument/references", **about, context=context)
            found[wanted] = [(each["uri"], each["range"]["start"]["line"]) for each in places]
        assert found[False] == [(user, 2), (user, 5)]
        assert sorted(found[True]) == [(library, 2), *found[False]]

    connected(make_server(no_settings), journey, tmp_path)


def test_the_empty_kind_asks_for_all_actions() -> None:
    async def journey(connection: Connection) -> None:
        connection.open(LIBRARY.replace("nn.relu", "nn.rellu"))
        context = {"diagnostics": [], "only": [""]}
        found = await connection.ask(
            "textDocument/codeAction", **ABOUT, **place(3, 6, 6), context=context
        )
        assert [each["kind"] for each in found] == ["quickfix", "source.fixAll"]

    connected(make_server(no_settings), journey)


def test_some_lines_are_formatted_with_the_line_breaks_of_the_file() -> None:
    text = USER.replace("  c = act", " c=act").replace("  rules", " rules")

    async def journey(connection: Connection) -> None:
        connection.open(text.replace("\n", "\r\n"))
        options = {"tabSize": 2, "insertSpaces": True}
        found = await connection.ask(
            "textDocument/rangeFormatting", **ABOUT, **place(5, 0, 3), options=options
        )
        assert [each["newText"] for each in found] == ["  c = act(add(a, b));\r\n"]

    connected(make_server(no_settings), journey)


def test_a_name_that_the_imported_file_lacks_cannot_be_renamed(tmp_path: Path) -> None:
    (tmp_path / "lib.collage").write_text(LIBRARY.replace("act", "other"), "utf-8")
    user = (tmp_path / "user.collage").as_uri()

    async def journey(connection: Connection) -> None:
        connection.open(USER, user)
        about = {"textDocument": {"uri": user}, "position": ACT}
        _, said = await connection.refusal("textDocument/rename", **about, newName="active")
        assert said == "`lib.collage` cannot be read, or does not define `act`"

    connected(make_server(no_settings), journey, tmp_path)
