"""Answer the requests of an editor. What is asked is in the modules that know no protocol."""

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from collage_dsl.lsp import places
from collage_dsl.lsp.actions import fix_all, quick_fixes
from collage_dsl.lsp.coloring import MODIFIERS, TYPES, colored
from collage_dsl.lsp.completion import completions
from collage_dsl.lsp.converting import (
    completion_item,
    document_symbol,
    folding_range,
    position_of,
    range_of,
    semantic_tokens,
    signature_help,
    text_edits,
    workspace_symbol,
)
from collage_dsl.lsp.files import Settings
from collage_dsl.lsp.folding import folds
from collage_dsl.lsp.formatting import formatted, formatted_lines
from collage_dsl.lsp.highlights import highlights
from collage_dsl.lsp.hover import hover
from collage_dsl.lsp.inferred import hints
from collage_dsl.lsp.outline import has_letters, symbols, workspace_symbols
from collage_dsl.lsp.problems import last_problems
from collage_dsl.lsp.rename import RenameError, renamable, rename
from collage_dsl.lsp.server import Server, follow_documents
from collage_dsl.lsp.signatures import signature_at
from collage_dsl.printable import printable

_MOST_SYMBOLS = 500


def make_server(settings: Callable[[Path], Settings]) -> Server:
    """A server with all its handlers; `settings` gives the settings of a file's repository."""
    server = Server(settings)
    follow_documents(server)
    answer_questions(server)
    answer_about_documents(server)
    answer_changes(server)
    return server


def answer_questions(server: Server) -> None:
    @server.answers(types.TEXT_DOCUMENT_HOVER)
    def on_hover(params: types.HoverParams) -> types.Hover | None:
        document, offset, change = server.settled(params)
        found = hover(document, offset, server.files)
        if found is None:
            return None
        content = types.MarkupContent(types.MarkupKind.Markdown, found.text)
        if change is not None:
            return types.Hover(content, range_of(change.new, change.after(found.span)))
        return types.Hover(content, range_of(document, found.span))

    @server.answers(types.TEXT_DOCUMENT_DEFINITION)
    def on_definition(params: types.DefinitionParams) -> types.Location | None:
        document, offset, change = server.settled(params)
        found = places.definition(document, offset, server.files)
        if found is None:
            return None
        if change is not None and found[0] is document:
            return server.location(change.new, change.after(found[1]))
        return server.location(*found)

    @server.answers(types.TEXT_DOCUMENT_REFERENCES)
    def on_references(params: types.ReferenceParams) -> list[types.Location]:
        every = params.context.include_declaration
        found = places.references(*server.at(params), server.files, with_definition=every)
        return [server.location(*place) for place in found]

    @server.answers(
        types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=[".", '"'])
    )
    def on_completion(params: types.CompletionParams) -> types.CompletionList:
        document, offset = server.at(params)
        span, found = completions(document, offset, server.files)
        at = range_of(document, span)
        prefix = document.text[span.start : offset]
        # An editor asks again for the next letter: hundreds of words take long to send.
        fitting = [completion_item(each, at) for each in found if has_letters(each.label, prefix)]
        return types.CompletionList(bool(prefix), fitting)

    @server.answers(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def on_symbols(params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        document = server.document(params.text_document.uri)
        return [document_symbol(document, each) for each in symbols(document)]

    @server.answers(types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    def on_highlight(params: types.DocumentHighlightParams) -> list[types.DocumentHighlight]:
        document, offset = server.at(params)
        kinds = {True: types.DocumentHighlightKind.Write, False: types.DocumentHighlightKind.Read}
        return [
            types.DocumentHighlight(range_of(document, each.span), kinds[each.is_definition])
            for each in highlights(document, offset)
        ]

    @server.answers(
        types.TEXT_DOCUMENT_SIGNATURE_HELP,
        types.SignatureHelpOptions(trigger_characters=["(", "[", ","]),
    )
    def on_signature(params: types.SignatureHelpParams) -> types.SignatureHelp | None:
        found = signature_at(*server.at(params), server.files)
        return None if found is None else signature_help(found)


def answer_about_documents(server: Server) -> None:
    """Answer questions about all of a document, or of the workspace."""

    @server.answers(types.WORKSPACE_SYMBOL)
    def on_workspace(params: types.WorkspaceSymbolParams) -> list[types.WorkspaceSymbol]:
        found = workspace_symbols(params.query, server.files.below(server.files.folders))
        return [
            workspace_symbol(symbol, server.location(document, symbol.span))
            for document, symbol in islice(found, _MOST_SYMBOLS)
        ]

    @server.answers(
        types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL,
        types.SemanticTokensLegend(list(TYPES), list(MODIFIERS)),
    )
    def on_tokens(params: types.SemanticTokensParams) -> types.SemanticTokens:
        document = server.document(params.text_document.uri)
        return semantic_tokens(document, colored(document))

    @server.answers(types.TEXT_DOCUMENT_FOLDING_RANGE)
    def on_folding(params: types.FoldingRangeParams) -> list[types.FoldingRange]:
        return [folding_range(each) for each in folds(server.document(params.text_document.uri))]

    @server.answers(types.TEXT_DOCUMENT_INLAY_HINT)
    def on_hints(params: types.InlayHintParams) -> list[types.InlayHint]:
        document = server.document(params.text_document.uri)
        shown = server.span(document, params.range)
        return [
            types.InlayHint(
                position_of(document.positions.position(each.offset)),
                each.text,
                types.InlayHintKind.Type,
            )
            for each in hints(document, server.files, shown)
        ]


def answer_changes(server: Server) -> None:
    @server.edits_text(types.TEXT_DOCUMENT_FORMATTING)
    def on_formatting(params: types.DocumentFormattingParams) -> list[types.TextEdit] | None:
        document = server.document(params.text_document.uri)
        found = formatted(document)
        return None if found is None else [types.TextEdit(range_of(document, found[0]), found[1])]

    @server.edits_text(types.TEXT_DOCUMENT_PREPARE_RENAME)
    def on_prepare(params: types.PrepareRenameParams) -> types.Range:
        document, offset = server.at(params)
        try:
            return range_of(document, renamable(document, offset, server.files))
        except RenameError as problem:
            raise JsonRpcInvalidParams(printable(str(problem))) from None

    @server.edits_text(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))
    def on_rename(params: types.RenameParams) -> types.WorkspaceEdit:
        document, offset = server.at(params)
        try:
            return server.edits(rename(document, offset, params.new_name, server.files))
        except RenameError as problem:
            raise JsonRpcInvalidParams(printable(str(problem))) from None

    @server.edits_text(types.TEXT_DOCUMENT_RANGE_FORMATTING)
    def on_range(params: types.DocumentRangeFormattingParams) -> list[types.TextEdit]:
        document = server.document(params.text_document.uri)
        first, end = params.range.start.line, params.range.end
        last = end.line + 1 if end.character or end.line == first else end.line
        return text_edits(document, formatted_lines(document, range(first, last)))

    @server.edits_text(
        types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions([_QUICK_FIX, _FIX_ALL])
    )
    def on_actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        document = server.document(params.text_document.uri)
        found = last_problems(document, server.files)
        only = params.context.only or [_QUICK_FIX, _FIX_ALL]
        actions = []
        if _asked(_QUICK_FIX, only):
            near = quick_fixes(document, found, server.span(document, params.range))
            preferred = len(near) == 1
            actions = [server.action(each, _QUICK_FIX, preferred=preferred) for each in near]
        if _asked(_FIX_ALL, only) and (every := fix_all(document, found)):
            actions.append(server.action(every, _FIX_ALL))
        return actions


_QUICK_FIX = types.CodeActionKind.QuickFix
_FIX_ALL = types.CodeActionKind.SourceFixAll


def _asked(kind: str, only: Sequence[str]) -> bool:
    """Whether `kind` is one of `only` or below one: `source.fixAll` is below `source` and ``."""
    return any(not each or kind == each or kind.startswith(f"{each}.") for each in only)
