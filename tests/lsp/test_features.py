"""Each feature that an editor asks for, through the protocol, from a server that is a process."""

from pathlib import Path

from lsprotocol import types

from collage_dsl.lsp.coloring import MODIFIERS, TYPES
from tests.lsp.editor import Editor, Served

TEXT = """\
collage 1;

# What follows a convolution.
# It is one operator.
let act = one_of(nn.relu, nn.gelu);

pattern conv(x, w: const, b?) {
  k = nn.conv2d(x, w) [data_layout == "NCHW"];
  s = add?(k, b);
  y = act(s);
  yield y;
}

pattern halves(x) {
  h = split(x) [indices_or_sections == 2];
  y = add(h.0, h.1);
  yield y;
}

rule library(p) = union(p, dfpattern(conv));

target tvm on llvm {
  rules combine_by_primitives(library(dfpattern(conv)), using: tvm_default, max_depth: 4);
}

test "small" {
  graph {
    x: f32[1, 3, 8, 8];
    w = const f32[16, 3, 3, 3];
    c = nn.conv2d(x, w);
    y = nn.relu(c);
    return y;
  }
  expect matches(conv, at: y) == 1;
}
"""


def position(text: str, of: str, after: int = 0) -> types.Position:
    """The place `after` characters after the start of `of`."""
    before = text[: text.index(of) + after]
    return types.Position(before.count("\n"), len(before.rpartition("\n")[2]))


def whole(text: str) -> types.Range:
    return types.Range(types.Position(0, 0), types.Position(text.count("\n"), 0))


def edited(text: str, edits: list[types.TextEdit]) -> str:
    """`text` after `edits`."""
    lines = text.splitlines(keepends=True)
    starts = [sum(map(len, lines[:at])) for at in range(len(lines) + 1)]
    for edit in sorted(edits, key=lambda e: (e.range.start.line, e.range.start.character))[::-1]:
        first, last = edit.range.start, edit.range.end
        start, end = starts[first.line] + first.character, starts[last.line] + last.character
        text = text[:start] + edit.new_text + text[end:]
    return text


async def actions(
    editor: Editor, uri: str, at: types.Range, *only: types.CodeActionKind
) -> list[types.CodeAction]:
    context = types.CodeActionContext([], only=list(only) or None)
    said = types.CodeActionParams(types.TextDocumentIdentifier(uri), at, context)
    found = await editor.client.text_document_code_action_async(said)
    assert found is not None
    return [each for each in found if isinstance(each, types.CodeAction)]


def changed(text: str, action: types.CodeAction) -> str:
    assert action.edit is not None
    assert action.edit.changes is not None
    ((_, edits),) = action.edit.changes.items()
    return edited(text, list(edits))


def test_a_quick_fix_removes_the_problem(served: Served, tmp_path: Path) -> None:
    wrong = TEXT.replace("act(s)", "nn.rellu(s)").replace("add?(k, b);", "add?(k, b)")

    async def journey(editor: Editor) -> None:
        uri = editor.open("a.collage", wrong)
        found = await editor.diagnostics(uri)
        assert [each.code for each in found] == ["E0101", "E0201"]

        (fix,) = await actions(editor, uri, found[1].range, types.CodeActionKind.QuickFix)

        assert (fix.title, fix.is_preferred) == ("write `nn.relu`", True)
        assert list(fix.diagnostics or ()) == [found[1]]
        (every,) = await actions(editor, uri, whole(wrong), types.CodeActionKind.SourceFixAll)
        text = changed(wrong, every)
        assert text == TEXT.replace("act(s)", "nn.relu(s)")
        editor.change(uri, text)
        left = [str(each.code) for each in await editor.diagnostics(uri)]
        assert not [code for code in left if code.startswith("E")]
        assert await actions(editor, uri, whole(text)) == []

    served.drive(tmp_path, journey)


def test_the_import_of_a_name_of_std_is_a_quick_fix(served: Served, tmp_path: Path) -> None:
    text = "collage 1;\n\npattern p(x) {\n  y = relu6(x);\n  yield y;\n}\n"

    async def journey(editor: Editor) -> None:
        uri = editor.open("a.collage", text)
        (found,) = await editor.diagnostics(uri)

        (fix,) = await actions(editor, uri, found.range, types.CodeActionKind.QuickFix)

        editor.change(uri, changed(text, fix))
        assert await editor.diagnostics(uri) == []

    served.drive(tmp_path, journey)


def test_words_are_colored_by_what_they_mean(served: Served, tmp_path: Path) -> None:
    async def journey(editor: Editor) -> None:
        uri = editor.open("a.collage", TEXT)
        said = types.SemanticTokensParams(types.TextDocumentIdentifier(uri))
        found = await editor.client.text_document_semantic_tokens_full_async(said)
        assert found is not None

        lines, line, column = TEXT.splitlines(), 0, 0
        known = {}
        for at in range(0, len(found.data), 5):
            down, right, length, type_, bits = found.data[at : at + 5]
            line, column = line + down, right + (0 if down else column)
            text = lines[line][column : column + length]
            marks = tuple(m for n, m in enumerate(MODIFIERS) if bits >> n & 1)
            known.setdefault(text, (TYPES[type_], marks))

        assert known["nn.relu"] == ("function", ("defaultLibrary",))
        assert known["act"] == ("enum", ("declaration",))
        assert known["conv"] == ("class", ("declaration",))
        assert known["b"] == ("parameter", ("declaration",))
        assert known["data_layout"] == ("property", ("defaultLibrary",))
        assert known["f32"] == ("type", ("defaultLibrary",))
        assert known["yield"] == ("keyword", ())
        assert known["# It is one operator."] == ("comment", ())
        assert known['"NCHW"'] == ("string", ())

    served.drive(tmp_path, journey)


def test_the_places_of_a_name_are_highlighted(served: Served, tmp_path: Path) -> None:
    async def journey(editor: Editor) -> None:
        uri = editor.open("a.collage", TEXT)
        document = types.TextDocumentIdentifier(uri)
        at = position(TEXT, "k, b")
        found = await editor.client.text_document_document_highlight_async(
            types.DocumentHighlightParams(document, at)
        )
        assert found is not None
        kinds = [each.kind for each in found]
        write, read = types.DocumentHighlightKind.Write, types.DocumentHighlightKind.Read
        assert (kinds, found[1].range.start) == ([write, read], at)

    served.drive(tmp_path, journey)


def test_blocks_and_comments_can_be_folded(served: Served, tmp_path: Path) -> None:
    async def journey(editor: Editor) -> None:
        uri = editor.open("a.collage", TEXT)
        said = types.FoldingRangeParams(types.TextDocumentIdentifier(uri))
        found = await editor.client.text_document_folding_range_async(said)
        assert found is not None
        folds = {(each.start_line, each.end_line): each.kind for each in found}
        assert folds[2, 3] == types.FoldingRangeKind.Comment
        assert (6, 10) in folds

    served.drive(tmp_path, journey)


def test_symbols_of_all_files_are_found_by_some_letters(served: Served, tmp_path: Path) -> None:
    (tmp_path / "closed.collage").write_text("collage 1;\nrule conversions = host();\n")

    async def journey(editor: Editor) -> None:
        editor.open("a.collage", TEXT)
        said = types.WorkspaceSymbolParams("cnv")
        found = await editor.client.workspace_symbol_async(said)
        assert found is not None
        assert {each.name for each in found} == {"conv", "conversions"}

    served.drive(tmp_path, journey)


def test_the_operands_and_attributes_of_what_is_called_are_shown(
    served: Served, tmp_path: Path
) -> None:
    cases = {
        "x, w) [": ("nn.conv2d(data, weight)", 0),
        "w) [": ("nn.conv2d(data, weight)", 1),
        "k, b": ("add(x1, x2)", 0),
        "conv)), using": ("dfpattern(pattern)", 0),
        "at: y": ("matches(pattern, at: node, nodes: number)", 1),
    }

    async def journey(editor: Editor) -> None:
        uri = editor.open("a.collage", TEXT)
        document = types.TextDocumentIdentifier(uri)
        for of, (label, active) in cases.items():
            said = types.SignatureHelpParams(document, position(TEXT, of))
            found = await editor.client.text_document_signature_help_async(said)
            assert found is not None, of
            assert (found.signatures[0].label, found.active_parameter) == (label, active)
        said = types.SignatureHelpParams(document, position(TEXT, "data_layout", 6))
        found = await editor.client.text_document_signature_help_async(said)
        assert found is not None
        assert "data_layout: str" in found.signatures[0].label

    served.drive(tmp_path, journey)


def test_the_arguments_of_a_function_are_shown(served: Served, tmp_path: Path) -> None:
    text = "collage 1;\npattern p(c: const) { y = exp(c); where all(place(c, 0) > 0); yield y; }\n"

    async def journey(editor: Editor) -> None:
        document = types.TextDocumentIdentifier(editor.open("a.collage", text))
        said = types.SignatureHelpParams(document, position(text, "0) > 0"))
        found = await editor.client.text_document_signature_help_async(said)
        assert found is not None
        assert (found.signatures[0].label, found.active_parameter) == ("place(constant, axis)", 1)

    served.drive(tmp_path, journey)


def test_only_the_lines_of_a_range_are_formatted(served: Served, tmp_path: Path) -> None:
    ugly = TEXT.replace("  y = act", " y  =  act").replace("  y = add(h", " y  =  add(h")
    line = position(ugly, " y  =  act").line

    async def journey(editor: Editor) -> None:
        said = types.DocumentRangeFormattingParams(
            types.TextDocumentIdentifier(editor.open("a.collage", ugly)),
            types.Range(types.Position(line, 0), types.Position(line, 3)),
            types.FormattingOptions(2, True),
        )
        found = await editor.client.text_document_range_formatting_async(said)
        assert found is not None
        assert edited(ugly, list(found)) == TEXT.replace("  y = add(h", " y  =  add(h")

    served.drive(tmp_path, journey)


def test_the_types_that_were_inferred_are_shown(served: Served, tmp_path: Path) -> None:
    async def journey(editor: Editor) -> None:
        uri = editor.open("a.collage", TEXT)
        await editor.diagnostics(uri)
        document = types.TextDocumentIdentifier(uri)
        said = types.InlayHintParams(document, whole(TEXT))
        found = await editor.client.text_document_inlay_hint_async(said)
        assert found is not None
        shown = {(each.position.line, each.label) for each in found}
        assert (position(TEXT, "h = split").line, ": (tensor, tensor)") in shown
        assert (position(TEXT, "c = nn.conv2d").line, ": f32[1, 16, 6, 6]") in shown

        at = position(TEXT, "c = nn.conv2d")
        hover = await editor.client.text_document_hover_async(types.HoverParams(document, at))
        assert hover is not None
        assert isinstance(hover.contents, types.MarkupContent)
        assert "c: f32[1, 16, 6, 6]" in hover.contents.value

    served.drive(tmp_path, journey)
