"""Rename a definition and all its uses in the workspace."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from collage_dsl.graph.operators import operators
from collage_dsl.language.resolve.reserved import reserved
from collage_dsl.lsp.documents import Document
from collage_dsl.lsp.files import Files
from collage_dsl.lsp.names import Definition, External, Use
from collage_dsl.lsp.places import origin_of, uses_of
from collage_dsl.source import Span


class RenameError(Exception):
    """A name cannot be changed, or not to the wanted one."""


@dataclass(frozen=True, slots=True)
class Edit:
    document: Document
    span: Span
    text: str


def renamable(document: Document, offset: int, files: Files) -> Span:
    """The span of the name at `offset`. Raises RenameError if it cannot be changed."""
    use, _, _ = _found(document, offset, files)
    return use.span


def rename(document: Document, offset: int, new: str, files: Files) -> tuple[Edit, ...]:
    """
    The edits that change the name at `offset` to `new`, here and in the files of the workspace
    that import it. Raises RenameError if that would change the meaning of something.
    """
    _, home, definition = _found(document, offset, files)
    if new == definition.name:
        return ()
    _check_new(new, definition)
    found = list(uses_of(home, definition, files))
    touched = dict.fromkeys([home, *(other for other, _ in found)])
    for other in touched:
        _check_free(new, other, definition)
    for other in touched if definition.inside else {**touched, **_importers(home, files)}:
        _check_whole(other, definition.name)
    edits = tuple(Edit(other, use.span, new) for other, use in found)
    for other in touched:
        _check_same(other, [edit for edit in edits if edit.document is other])
    return edits


def _found(document: Document, offset: int, files: Files) -> tuple[Use, Document, Definition]:
    """The use at `offset`, and the definition to rename."""
    use = document.names.at(offset)
    if use is None:
        raise RenameError("there is no name here that a file defines")
    origin = origin_of(document, use, files)
    if origin is None and isinstance(use.what, Definition):
        origin = document, use.what  # an import that cannot be found, or one with its own name
        if use.what.sort == "imported name" and use.what.of and use.what.of.name == use.what.name:
            path = use.what.of.path
            raise RenameError(f"`{path}` cannot be read, or does not define `{use.what.name}`")
    if origin is None:
        raise RenameError(f"`{use.span.text}` is no name that a file defines")
    home, definition = origin
    if home is not document and not files.contains(home):
        where = f"{home.path}, which is not in the workspace"
        raise RenameError(f"`{definition.name}` is defined in {where}")
    return use, home, definition


def _check_new(new: str, definition: Definition) -> None:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", new):
        raise RenameError(f"`{new}` is not a name: letters, digits and `_`, no digit first")
    if definition.sort not in ("target", "node") and (why := reserved(new)):
        raise RenameError(why)
    if not definition.inside and definition.sort != "target" and new in operators():
        raise RenameError(f"`{new}` is an operator")


def _check_free(new: str, document: Document, definition: Definition) -> None:
    """Raise RenameError if `new` already names something else where `definition` is visible."""
    names = document.names
    scopes = [names.targets] if definition.sort == "target" else [names.definitions]
    if definition.inside:
        scopes = [scope for _, scope in names.scopes if definition in scope.values()]
    # A parameter of a rule would hide it; local names of patterns and tests would not.
    inner = [d for _, scope in names.scopes for d in scope.values() if _hides(d, document)]
    taken = {name for scope in scopes for name in scope}
    if not definition.inside:
        taken |= {d.name for d in inner}
    elif _hides(definition, document):
        taken |= {*names.definitions}
    if new in taken:
        raise RenameError(f"`{new}` is defined already in {document.path.name}")


def _hides(definition: Definition, document: Document) -> bool:
    owner = document.names.definitions.get(definition.inside)
    return definition.sort == "parameter" and owner is not None and owner.sort == "rule"


def _check_whole(document: Document, name: str) -> None:
    """Raise RenameError if a statement with a syntax error contains the name: it may be a use."""
    for broken in document.file.broken:
        if re.search(rf"(?<![\w]){re.escape(name)}(?!\w)", broken.span.text):
            line = document.source.position(broken.span.start)[0]
            where = f"{document.path.name}, line {line}"
            raise RenameError(f"`{name}` is in a statement with a syntax error: {where}")


def _check_same(document: Document, edits: Sequence[Edit]) -> None:
    """Raise RenameError if a name of `document` stands for something else after `edits`."""
    renamed = {edit.span.start for edit in edits}
    text, end = "", 0
    for edit in sorted(edits, key=lambda edit: edit.span.start):
        text += document.text[end : edit.span.start] + edit.text
        end = edit.span.end
    changed = Document(document.path, text + document.text[end:], document.encoding)
    before, after = document.names.uses, changed.names.uses
    is_new = [use.span.start in renamed for use in before]
    meant, means = _meanings(before, is_new), _meanings(after, is_new)
    if meant != means:
        at = next((at for at, (a, b) in enumerate(zip(meant, means)) if a != b), -1)  # noqa: B905
        line = document.source.position(before[at].span.start)[0]
        where = f"{document.path.name}, line {line}"
        raise RenameError(f"`{edits[0].text}` would mean something else here: {where}")


def _meanings(uses: Sequence[Use], is_new: Sequence[bool]) -> list[object]:
    """What each of `uses` stands for: the number of a definition, or anything else itself."""
    numbers = {use.span.start: at for at, use in enumerate(uses)}
    found: list[object] = []
    for at, use in enumerate(uses):
        match use.what:
            case Definition(span=span):
                found.append(numbers[span.start])
            case External(path) if at < len(is_new) and is_new[at]:
                found.append(path)
            case what:
                found.append(what)
    return found


def _importers(home: Document, files: Files) -> dict[Document, None]:
    return dict.fromkeys(other for other, _ in files.importers(home))
