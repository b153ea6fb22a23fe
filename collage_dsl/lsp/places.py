"""Find the definition of a name and all its uses, across the files of a workspace."""

from collections.abc import Iterator

from collage_dsl.lsp.documents import Document
from collage_dsl.lsp.files import Files
from collage_dsl.lsp.names import Definition, External, Use
from collage_dsl.source import Span

Place = tuple[Document, Span]


def definition(document: Document, offset: int, files: Files) -> Place | None:
    """The definition of the name at `offset`, in this file or the one it is imported from."""
    use = document.names.at(offset)
    if use is None:
        return None
    match use.what:
        case Definition(of=None, span=span):
            return document, span
        case Definition(of=External() as of, span=span):
            is_import = use.span == span
            return _outside(document, of, files) or (None if is_import else (document, span))
        case External() as of:
            return _outside(document, of, files)
    return None


def _outside(document: Document, of: External, files: Files) -> Place | None:
    found = files.definition(document, of)
    if found is None:
        return None
    other, there = found
    if there is not None:
        return other, there.span
    return None if of.name else (other, Span(other.source, 0, 0))


def references(
    document: Document, offset: int, files: Files, *, with_definition: bool = True
) -> tuple[Place, ...]:
    """All places in the workspace with the name at `offset`."""
    return tuple(
        (other, use.span)
        for other, use in uses(document, offset, files)
        if with_definition or not _defines(use)
    )


def _defines(use: Use) -> bool:
    """Whether this is the place of the definition. An import only refers to one elsewhere."""
    what = use.what
    return isinstance(what, Definition) and what.of is None and what.span == use.span


def uses(document: Document, offset: int, files: Files) -> Iterator[tuple[Document, Use]]:
    """Like `references`, with what each name stands for."""
    use = document.names.at(offset)
    if use is None:
        return
    origin = origin_of(document, use, files)
    if origin is None:
        yield from ((document, each) for each in document.names.of(use.what))
    else:
        yield from uses_of(*origin, files)


def origin_of(document: Document, use: Use, files: Files) -> tuple[Document, Definition] | None:
    """The file that defines what `use` stands for, and the definition there."""
    match use.what:
        case Definition(of=None) as found:
            return document, found
        case Definition(name, of=External(_, wanted)) as found if wanted == name:
            return files.origin(document, found)
        case External(_, name) as of if name:
            there = files.definition(document, of)
            return (there[0], there[1]) if there and there[1] else None
    return None


def uses_of(document: Document, found: Definition, files: Files) -> Iterator[tuple[Document, Use]]:
    """All uses of `found`, a definition in `document`, here and in files that import it."""
    yield from ((document, use) for use in document.names.of(found))
    if found.inside or found.sort == "target":
        return
    for other, paths in files.importers(document):
        wanted = {External(path, found.name) for path in paths}
        for use in other.names.uses:
            if use.what in wanted or _is_plain_import(use.what, wanted):
                yield other, use


def _is_plain_import(what: object, wanted: set[External]) -> bool:
    """Whether a name was imported without being renamed."""
    return isinstance(what, Definition) and what.of in wanted and what.name == what.of.name
