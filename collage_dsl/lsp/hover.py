"""Describe the name under the cursor, in Markdown."""

from dataclasses import dataclass

from collage_dsl.graph.operators import operators
from collage_dsl.language.messages.codes import CODES
from collage_dsl.language.messages.explanations import explanation
from collage_dsl.language.syntax.formatter_tree import comments, tokens
from collage_dsl.lsp.classes import members
from collage_dsl.lsp.documents import Document
from collage_dsl.lsp.files import Files
from collage_dsl.lsp.inferred import inferred
from collage_dsl.lsp.names import Definition, External, Use, Word
from collage_dsl.lsp.tables import about
from collage_dsl.lsp.vocabulary import meaning
from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class Hover:
    text: str
    span: Span


def hover(document: Document, offset: int, files: Files) -> Hover | None:
    """The description of what is at `offset`; None if there is none."""
    use = document.names.at(offset)
    text = "" if use is None else _about(use, document, files)
    if use is not None and text:
        return Hover(text, use.span)
    return _code(document, offset) or _keyword(document, offset)


def _about(use: Use, document: Document, files: Files) -> str:
    match use.what:
        case Definition() as definition:
            return _definition(definition, document, files)
        case External() as of:
            return _external(of, document, files)
        case Word(group, text, owners):
            return meaning(group, text, owners)


def _definition(definition: Definition, document: Document, files: Files) -> str:
    if definition.of is not None:
        return _external(definition.of, document, files)
    if definition.inside:
        return _inside(definition, document, files)
    parts = [_block(document.header(definition))]
    if comment := document.comment_above(definition.whole):
        parts.append(comment)
    if definition.sort == "class":
        found = ", ".join(f"`{name}`" for name in members(document.file, definition.name))
        parts.append(f"The operators {found}.")
    return "\n\n".join(parts)


def _inside(definition: Definition, document: Document, files: Files) -> str:
    """The description of a name inside a pattern, a rule or a test."""
    text = document.header(definition)
    known = inferred(definition, document, files)
    # The type of an input or a constant is what is written there.
    shown = _block(f"{text}\n{definition.name}: {known}" if known and known not in text else text)
    owner = None if definition.sort == "node" else document.names.named(definition.inside)
    where = f"{owner.sort} `{owner.name}`" if owner else f"test “{definition.inside}”"
    return f"{shown}\n\nA {definition.sort} of {where}."


def _external(of: External, document: Document, files: Files) -> str:
    found = files.definition(document, of)
    if found is None:
        return about(of.path, of.name)
    other, definition = found
    if of.name:
        origin = f"From `{of.path}`."
        return f"{_definition(definition, other, files)}\n\n{origin}" if definition else ""
    names = ", ".join(f"`{name}`" for name, each in other.names.definitions.items() if not each.of)
    return f"`{of.path}` defines {names}." if names else f"`{of.path}` defines nothing."


def _code(document: Document, offset: int) -> Hover | None:
    """The description of a code in a comment that ignores it."""
    for start, end in comments(document.text):
        if start <= offset <= end:
            code = document.word_at(offset)
            if code not in CODES:
                return None
            at = document.text.index(code, max(start, offset - len(code)))
            return Hover(explanation(code).page, Span(document.source, at, at + len(code)))
    return None


def _keyword(document: Document, offset: int) -> Hover | None:
    for kind, start, end in tokens(document.text):
        if kind == "word" and start <= offset <= end:
            word = document.text[start:end]
            text = meaning("keyword", word)
            if not text and word in operators():  # in a statement with a syntax error
                text = meaning("operator", word)
            return Hover(text, Span(document.source, start, end)) if text else None
    return None


def _block(text: str) -> str:
    return f"```collage\n{text}\n```"
