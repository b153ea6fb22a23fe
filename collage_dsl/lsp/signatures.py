"""Describe what is called at the cursor, and which argument is being written."""

from collections.abc import Mapping
from dataclasses import dataclass

from collage_dsl.graph.operators import operators
from collage_dsl.language.resolve.functions import ARGUMENTS, OF_CONSTANTS
from collage_dsl.language.syntax import ast
from collage_dsl.lsp.classes import operators_called
from collage_dsl.lsp.context import Bracket, context
from collage_dsl.lsp.documents import Document
from collage_dsl.lsp.files import Files
from collage_dsl.lsp.names import External
from collage_dsl.lsp.vocabulary import attribute_type, meaning
from collage_dsl.rules.rule_functions import KIND_PAIR, RULES

_RULES: Mapping[str, tuple[str, ...]] = {
    **{name: function.signature for name, function in RULES.items()},
    "one_of": ("operators…",),
}
_PRIMITIVES = {KIND_PAIR: ("upstream -> downstream",)}
_FUNCTIONS = {
    **{
        name: ("constant" if name in OF_CONSTANTS else "value", "axis")[:count]
        for name, count in ARGUMENTS.items()
    },
    "all": ("condition",),
}
_QUESTIONS = {
    "matches": ("pattern", "at: node", "nodes: number"),
    "why_not": ("pattern", "at: node"),
    "candidates": ("rule",),
    "proposes": ("rule", "[nodes…]"),
    "kernels": ("target",),
    "target_of": ("node",),
}


@dataclass(frozen=True, slots=True)
class Signature:
    """A call in words, its parameters as they stand in `label`, and the one being written."""

    label: str
    parameters: tuple[str, ...]
    active: int
    documentation: str = ""


def signature_at(document: Document, offset: int, files: Files) -> Signature | None:
    """The signature of the innermost call around `offset`; None outside calls."""
    here = context(document.text, offset)
    if here.is_comment or here.is_string:
        return None
    for bracket in reversed(here.brackets):
        if bracket.heads:
            head = bracket.heads[-1]
            if bracket.sign == "[":
                return _attributes(head, bracket, here.prefix, document)
            return _call(head, bracket, here.blocks, document, files)
        if bracket.sign == "(":
            return None
    return None


def _attributes(head: str, bracket: Bracket, prefix: str, document: Document) -> Signature | None:
    """The attributes of an operator, or of the first of a class."""
    known = operators_called(document.file, [head])
    if not known or not operators()[known[0]].attrs:
        return None
    names = tuple(operators()[known[0]].attrs)
    shown = tuple(f"{name}: {attribute_type(known[0], name)}" for name in names)
    written = [*bracket.words, prefix]
    active = next((names.index(word) for word in written if word in names), len(names))
    return _signature(head, shown, active, meaning("operator", known[0]), "[]")


def _call(
    head: str, bracket: Bracket, blocks: list[str], document: Document, files: Files
) -> Signature | None:
    own = _own_parameters(head, document, files)
    if own is not None:
        return _numbered(head, own, bracket)
    if head in operators() and blocks and blocks[0] in ("pattern", "test"):
        operator = operators()[head]
        if operator.operands is None:
            return _numbered(head, ("operands…",), bracket, meaning("operator", head))
        return _numbered(head, operator.shown_operands, bracket, meaning("operator", head))
    groups = {"rule": _RULES, "primitive": _PRIMITIVES, "function": _FUNCTIONS}
    for group, known in {**groups, "question": _QUESTIONS}.items():
        if head in known:
            return _numbered(head, known[head], bracket, meaning(group, head))
    return None


def _own_parameters(head: str, document: Document, files: Files) -> tuple[str, ...] | None:
    """The parameters of a pattern, rule or predicate of the user, here or in an imported file."""
    home, name = document, head
    prefix, _, rest = head.partition(".")
    found = document.names.definitions.get(head) or document.names.definitions.get(prefix)
    if found is not None and found.of is not None:
        there = files.definition(document, External(found.of.path, found.of.name or rest))
        if there is None or there[1] is None:
            return None
        home, name = there[0], there[1].name
    for item in home.file.items:
        match item:
            case ast.Pattern(ast.Name(text), parameters) if text == name:
                return tuple(f"{p.name.text}{'?' * p.optional}" for p in parameters)
            case ast.Rule(ast.Name(text), _, names) if text == name and names:
                return tuple(each.text for each in names)
            case ast.Predicate(ast.Name(text), names) if text == name:
                return tuple(each.text for each in names)
    return None


def _numbered(
    head: str, parameters: tuple[str, ...], bracket: Bracket, documentation: str = ""
) -> Signature:
    active = bracket.number
    if bracket.argument:
        named = [each.partition(":")[0] for each in parameters]
        active = named.index(bracket.argument) if bracket.argument in named else len(parameters)
    elif parameters and parameters[-1].endswith("…"):
        active = min(active, len(parameters) - 1)
    return _signature(head, parameters, active, documentation, "()")


def _signature(
    head: str, parameters: tuple[str, ...], active: int, documentation: str, brackets: str
) -> Signature:
    space = " " if brackets == "[]" else ""
    label = f"{head}{space}{brackets[0]}{', '.join(parameters)}{brackets[1]}"
    return Signature(label, parameters, active, documentation)
