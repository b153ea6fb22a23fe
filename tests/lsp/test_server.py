"""The server as an editor drives it: a process that is talked to on its standard input."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams

from tests.lsp.editor import Editor, Served, drive

TEXT = """\
collage 1;
# An activated convolution: 𝄞.
pattern conv(x, w: const) {
  k = nn.conv2d(x, w) [data_layout == "NCHW"];
  y = nn.relu(k);
  where dtype(x) == f32 else "𝄞" ;
  yield y;
}
target tvm on llvm { rules dfpattern(conv); }
"""


def place(text: str, of: str) -> types.Position:
    before = text[: text.index(of)]
    line = before.count("\n")
    return types.Position(line, len(before.rpartition("\n")[2].encode("utf-16-le")) // 2)


def test_a_file_is_written_with_the_server(tmp_path: Path) -> None:
    async def journey(editor: Editor) -> None:
        client = editor.client
        uri = editor.open("a.collage", TEXT)
        document = types.TextDocumentIdentifier(uri)
        assert await editor.diagnostics(uri) == []

        editor.change(uri, TEXT.replace("nn.relu", "nn.rellu"))
        (wrong,) = await editor.diagnostics(uri)
        assert (wrong.code, wrong.source) == ("E0201", "collage")
        assert "did you mean `nn.relu`?" in wrong.message
        assert wrong.range.start == place(TEXT, "nn.relu")
        editor.change(uri, TEXT)
        assert await editor.diagnostics(uri) == []

        at = place(TEXT, "nn.conv2d")
        hover = await client.text_document_hover_async(types.HoverParams(document, at))
        assert hover is not None
        assert isinstance(hover.contents, types.MarkupContent)
        assert "nn.conv2d(data, weight)" in hover.contents.value

        at = place(TEXT, "conv);")
        found = await client.text_document_definition_async(types.DefinitionParams(document, at))
        assert isinstance(found, types.Location)
        assert found.range.start == place(TEXT, "conv(x")

        at = place(TEXT, "data_layout")
        offered = await client.text_document_completion_async(types.CompletionParams(document, at))
        assert isinstance(offered, types.CompletionList)
        assert "groups" in {item.label for item in offered.items}

        at = place(TEXT, "conv);")
        renamed = await client.text_document_rename_async(types.RenameParams(document, at, "c2"))
        assert renamed is not None
        assert renamed.changes is not None
        assert len(renamed.changes[uri]) == 2
        with pytest.raises(JsonRpcException, match="is an operator"):
            await client.text_document_rename_async(types.RenameParams(document, at, "exp"))

        options = types.FormattingOptions(2, True)
        said = types.DocumentFormattingParams(document, options)
        edits = await client.text_document_formatting_async(said)
        assert edits
        assert edits[0].new_text.count("\n") > 1

        symbols = await client.text_document_document_symbol_async(
            types.DocumentSymbolParams(document)
        )
        assert symbols
        assert [symbol.name for symbol in symbols] == ["conv", "tvm"]

    drive(tmp_path, journey)


def test_a_finding_leads_to_the_other_place_it_is_about(served: Served, tmp_path: Path) -> None:
    async def journey(editor: Editor) -> None:
        twice = "pattern conv(x) { y = exp(x); yield y; }\n"
        uri = editor.open("a.collage", TEXT + twice)
        (wrong,) = [each for each in await editor.diagnostics(uri) if each.code == "E0202"]
        assert wrong.related_information
        assert wrong.related_information[0].location.range.start == place(TEXT, "conv(x")

    served.drive(tmp_path, journey)


def test_the_configuration_of_the_repository_holds(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "b.collage").write_text(
        "collage 1; pattern f(x) { y = exp(x); yield y; }", "utf-8"
    )
    (tmp_path / "pyproject.toml").write_text(
        '[tool.collage]\npath = ["lib"]\nignore = ["W0405"]\n', "utf-8"
    )

    async def journey(editor: Editor) -> None:
        unused = 'import "b.collage" as b;\npattern q(x) { y = b.f(tanh(x)); yield y; }\n'
        uri = editor.open("a.collage", TEXT + unused)
        assert await editor.diagnostics(uri) == []

    drive(tmp_path, journey)


def test_a_request_that_fails_does_not_stop_the_server(served: Served, tmp_path: Path) -> None:
    async def journey(editor: Editor) -> None:
        uri = editor.open("a.collage", TEXT)
        nowhere = types.TextDocumentIdentifier((tmp_path / "none.collage").as_uri())
        start = types.Position(0, 0)
        with pytest.raises(JsonRpcException, match="cannot read"):
            await editor.client.text_document_hover_async(types.HoverParams(nowhere, start))
        far = types.Position(10**6, 10**6)
        document = types.TextDocumentIdentifier(uri)
        said = types.HoverParams(document, far)
        assert await editor.client.text_document_hover_async(said) is None
        assert await editor.diagnostics(uri) == []

    served.drive(tmp_path, journey)


def test_no_code_that_a_file_names_is_run(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    module = tmp_path / "evil_predicates.py"
    module.write_text(f"open({str(ran)!r}, 'w').close()\ndef fits(x): pass\n", "utf-8")
    text = TEXT.replace("where", "where fits(x) and", 1)
    text += 'extern predicate fits(x) from "evil_predicates:fits";\n'
    text += """test "t" {
  graph { x: f32[1, 3, 8, 8]; w = const f32[4, 3, 3, 3]; k = nn.conv2d(x, w); return k; }
  expect not matches(conv, at: k);
}
"""

    async def journey(editor: Editor) -> None:
        client = editor.client
        uri = editor.open("a.collage", text)
        document = types.TextDocumentIdentifier(uri)
        assert await editor.diagnostics(uri) == []
        for line in range(len(text.splitlines())):
            at = types.Position(line, 14)
            await client.text_document_hover_async(types.HoverParams(document, at))
            await client.text_document_completion_async(types.CompletionParams(document, at))
        at = place(text, "fits(x)")
        found = await client.text_document_definition_async(types.DefinitionParams(document, at))
        assert isinstance(found, types.Location)
        assert found.range.start == place(text, "fits(x) from")
        asked = types.ReferenceParams(types.ReferenceContext(True), document, at)
        assert len(await client.text_document_references_async(asked) or ()) == 2
        renamed = types.RenameParams(document, at, "suits")
        assert await client.text_document_rename_async(renamed)
        await client.text_document_document_symbol_async(types.DocumentSymbolParams(document))
        options = types.FormattingOptions(tab_size=2, insert_spaces=True)
        formatting = types.DocumentFormattingParams(document, options)
        await client.text_document_formatting_async(formatting)

    drive(tmp_path, journey)

    assert not ran.exists()
    alone = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", "import evil_predicates"], env=alone, check=True)
    assert ran.exists(), "importing it leaves a trace"


def test_what_imports_a_file_is_checked_again_when_it_is_closed_unsaved(
    served: Served, tmp_path: Path
) -> None:
    home = "collage 1; pattern f(x) { y = exp(x); yield y; }"
    (tmp_path / "b.collage").write_text(home, "utf-8")
    text = 'collage 1; import "b.collage" only (f); pattern g(x) { y = f(x); yield y; }'

    async def journey(editor: Editor) -> None:
        other = editor.open("b.collage", home.replace("f(x)", "h(x)"))
        uri = editor.open("a.collage", text)
        assert [each.code for each in await editor.diagnostics(uri)] == ["E0803"]
        document = types.TextDocumentIdentifier(other)
        editor.client.text_document_did_close(types.DidCloseTextDocumentParams(document))
        while await editor.diagnostics(uri):
            editor.news.clear()

    served.drive(tmp_path, journey)


def test_an_editor_that_can_watch_files_is_asked_to(tmp_path: Path) -> None:
    watched = types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True)
    workspace = types.WorkspaceClientCapabilities(did_change_watched_files=watched)

    async def whole() -> None:
        editor = Editor(tmp_path)
        asked: asyncio.Queue[types.RegistrationParams] = asyncio.Queue()

        @editor.client.feature(types.CLIENT_REGISTER_CAPABILITY)
        def register(params: types.RegistrationParams) -> None:
            asked.put_nowait(params)

        await editor.start(types.ClientCapabilities(workspace=workspace))
        (found,) = (await asyncio.wait_for(asked.get(), 60)).registrations
        await editor.stop()
        assert found.method == types.WORKSPACE_DID_CHANGE_WATCHED_FILES

    asyncio.run(whole())


def test_a_folder_that_is_added_belongs_to_the_workspace(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "two" / "a.collage").write_text(TEXT, "utf-8")

    async def journey(editor: Editor) -> None:
        asked = types.WorkspaceSymbolParams("conv")
        assert not await editor.client.workspace_symbol_async(asked)
        added = types.WorkspaceFolder((tmp_path / "two").as_uri(), "two")
        event = types.WorkspaceFoldersChangeEvent([added], [])
        said = types.DidChangeWorkspaceFoldersParams(event)
        editor.client.workspace_did_change_workspace_folders(said)
        assert await editor.client.workspace_symbol_async(asked)

    drive(tmp_path / "one", journey)


def test_a_uri_with_a_null_character_is_refused(served: Served, tmp_path: Path) -> None:
    async def journey(editor: Editor) -> None:
        at = types.Position(0, 0)
        for uri in ("file:///a%00b.collage", "file://\0", "untitled:\0"):
            said = types.HoverParams(types.TextDocumentIdentifier(uri), at)
            with pytest.raises(JsonRpcException) as refused:
                await editor.client.text_document_hover_async(said)
            assert refused.value.code == JsonRpcInvalidParams.CODE

    served.drive(tmp_path, journey)


def test_the_server_ends_well_when_its_input_does(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "collage_dsl.cli.main", "lsp", "--stdio"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)

    assert done.returncode == 0
    assert b"internal error" not in done.stderr


def _framed(*messages: dict[str, object]) -> bytes:
    """`messages` as an editor sends them."""
    bodies = (json.dumps({"jsonrpc": "2.0", **each}).encode() for each in messages)
    return b"".join(b"Content-Length: %d\r\n\r\n%b" % (len(body), body) for body in bodies)


def test_a_malformed_message_is_refused_with_its_reason(tmp_path: Path) -> None:
    document = {"uri": (tmp_path / "a.collage").as_uri()}
    opened = {**document, "languageId": "collage", "version": 1, "text": "collage 1;\n"}
    at = {"textDocument": document, "position": {"line": 0, "character": 0}}
    given = _framed(
        {"id": 1, "method": "initialize", "params": {"capabilities": {}, "processId": None}},
        {"method": "initialized", "params": {}},
        {"method": "textDocument/didOpen", "params": {"textDocument": opened}},
        {"method": "textDocument/didOpen", "params": {}},
        {"id": 2, "method": "textDocument/hover", "params": {"textDocument": document}},
        {"id": 3, "method": "textDocument/hover"},
        {"id": 4, "method": "textDocument/rename", "params": {**at, "newName": None}},
        {
            "id": 5,
            "method": "textDocument/hover",
            "params": {**at, "textDocument": {"uri": "no:x"}},
        },
    )
    end = _framed({"id": 6, "method": "shutdown"}, {"method": "exit"})
    command = [sys.executable, "-m", "collage_dsl.cli.main", "lsp", "--stdio"]

    # A shutdown cancels the requests that are not answered yet.
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(given)
        server.stdin.flush()
        said = b""
        while b"no:x" not in said:
            more = os.read(server.stdout.fileno(), 4096)
            assert more, "the server has ended"
            said += more
        rest, problems = server.communicate(end, timeout=60)

    bodies = (part.rpartition(b"}")[0] + b"}" for part in (said + rest).split(b"\r\n\r\n")[1:])
    answers = {each.get("id"): each.get("error") for each in map(json.loads, bodies)}
    for number, said in (
        (2, "'position'"),
        (3, "'params'"),
        (4, "a string is needed"),
        (5, "no:x"),
    ):
        assert answers[number]["code"] == JsonRpcInvalidParams.CODE
        assert said in answers[number]["message"]
    assert answers[6] is None
    assert b"Traceback" not in problems


def _serve(*messages: dict[str, object]) -> tuple[dict[object, Any], int]:
    """The answers by id to `messages`, and the exit code of the server."""
    command = [sys.executable, "-m", "collage_dsl.cli.main", "lsp", "--stdio"]
    done = subprocess.run(command, input=_framed(*messages), capture_output=True, timeout=60)
    bodies = (part.rpartition(b"}")[0] + b"}" for part in done.stdout.split(b"\r\n\r\n")[1:])
    return {each.get("id"): each for each in map(json.loads, bodies)}, done.returncode


INITIALIZE: dict[str, object] = {
    "id": 1,
    "method": "initialize",
    "params": {"capabilities": {}, "processId": None},
}


def test_requests_out_of_order_are_refused() -> None:
    hover = {
        "method": "textDocument/hover",
        "params": {"textDocument": {"uri": "no:x"}, "position": {"line": 0, "character": 0}},
    }

    answers, code = _serve(
        {"id": 0, **hover},
        INITIALIZE,
        {"id": 2, "method": "shutdown"},
        {"id": 3, **hover},
        {"method": "exit"},
    )

    assert answers[0]["error"] == {"code": -32002, "message": "send `initialize` first"}
    assert "result" in answers[1]
    assert answers[3]["error"] == {"code": -32600, "message": "the server was shut down"}
    assert code == 0


def test_an_exit_without_shutdown_has_the_exit_code_of_the_protocol() -> None:
    assert _serve(INITIALIZE, {"method": "exit"})[1] == 1
    assert _serve({"method": "exit"})[1] == 1


def test_a_byte_order_mark_is_no_text(served: Served, tmp_path: Path) -> None:
    async def journey(editor: Editor) -> None:
        uri = editor.open(
            "a.collage", "\ufeffcollage 1;\npattern p(x) { y = nn.relo(x); yield y; }\n"
        )

        assert [each.code for each in await editor.diagnostics(uri)] == ["E0201"]

    served.drive(tmp_path, journey)
