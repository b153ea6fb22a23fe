"""`collage breaking`: say what a changed spec no longer matches."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from collage_dsl.cli.answer import answer
from collage_dsl.cli.config import Configs
from collage_dsl.cli.documents import BreakingDocument, ChangeDocument, MatchDocument
from collage_dsl.cli.failure import CANNOT, WRONG, CommandError, with_options
from collage_dsl.cli.files import Given
from collage_dsl.cli.revisions import files_at
from collage_dsl.engine.breaking import Change, Matched, changes, graphs_of
from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.tables import registered_tables
from collage_dsl.language import read
from collage_dsl.language.loading import load_contents
from collage_dsl.language.messages.findings import count
from collage_dsl.language.resolve.file import Contents
from collage_dsl.printable import printable

_SHOWN = 5
"""How many lost or gained matches of a definition are shown to people."""


def show_breaking(
    old: str, new: str, output_format: str, search: Sequence[Path], allow_extern: bool
) -> int:
    """
    Compare two files or two folders, and show what changed. The exit code is 1 where something is
    removed or no longer matched, and else 2 where something cannot be compared.
    """
    with files_at(old) as before, files_at(new) as after:
        if before.is_dir() != after.is_dir():
            raise CommandError("compare a file with a file, or a folder with a folder")
        first = _loaded(old, before, new, search, allow_extern)
        second = _loaded(new, after, new, search, allow_extern)
    graphs = graphs_of(first, second)
    found = tuple(changes(first, second, graphs, lookup(allow_extern=allow_extern)))
    document = BreakingDocument(
        old=old,
        new=new,
        breaking=any(change.is_breaking for change in found),
        graphs=len(graphs),
        left_out=len({name for files in (first, second) for name in _models(files)}),
        changes=[_change(change) for change in found],
    )
    answer(document, "".join(f"{line}\n" for line in _lines(document)), output_format)
    if document.breaking:
        return WRONG
    return CANNOT if any(change.unknown for change in found) else 0


def _loaded(
    named: str, path: Path, name: str, search: Sequence[Path], allow_extern: bool
) -> dict[str, Contents]:
    """
    The contents of each file, by its path in the folder; that of a single file by `name`. Messages
    call the files what they are called in `named`.
    """
    configs = Configs()
    tables = registered_tables(allow_extern=allow_extern)
    found: dict[str, Contents] = {}
    for file in Given([path]).files(configs):
        inner = file.relative_to(path).as_posix() if path.is_dir() else ""
        source = read(file, f"{named.rstrip('/')}/{inner}" if inner else named)
        folders = (*search, *configs.of(file).path)
        contents = load_contents(source, folders, folder=file.parent, tables=tables)
        found[inner or name] = contents
    return found


def _models(files: Mapping[str, Contents]) -> Iterator[tuple[str, str, str]]:
    """The tests that name a model."""
    for file, contents in files.items():
        yield from ((file, test.name, test.model) for test in contents.tests if test.model)


def _change(change: Change) -> ChangeDocument:
    return ChangeDocument(
        file=change.file,
        kind=change.kind,
        name=change.name,
        change=change.change,
        lost=[_match(each) for each in change.lost],
        gained=[_match(each) for each in change.gained],
        unknown=list(map(with_options, change.unknown)),
    )


def _match(matched: Matched) -> MatchDocument:
    return MatchDocument(
        file=matched.on.file,
        test=matched.on.test,
        version=matched.on.version,
        nodes=list(matched.nodes),
        reason=matched.reason,
    )


# The answer for people.


def _lines(document: BreakingDocument) -> Iterator[str]:
    for change in document.changes:
        said = _said(change, document.graphs)
        yield f"{printable(change.file)}: {change.kind} `{change.name}`: {said}"
        yield from _matches("lost", change.lost)
        yield from _matches("gained", change.gained)
        for each in change.unknown if document.graphs else ():
            yield f"  unknown: {printable(each)}"
        yield ""
    compared = f"{count(document.graphs, 'graph')} compared"
    if not document.changes:
        yield f"{compared}, nothing changed"
    else:
        removed = [change for change in document.changes if change.change == "removed"]
        lost = sum(len(change.lost) for change in document.changes)
        gained = sum(len(change.gained) for change in document.changes)
        yield f"{compared}: {len(removed)} removed, {lost} lost, {gained} gained"
    if document.left_out:
        yield f"{count(document.left_out, 'test')} with a model left out"
    if any(change.unknown for change in document.changes) and not document.graphs:
        yield "no test has a graph to compare on: add one, as `collage example FILE#PATTERN` writes"


def _said(change: ChangeDocument, graphs: int) -> str:
    if change.change != "changed":
        return change.change
    if not graphs:
        return "changed, compared on no graph"
    noun, plural = ("match", "es") if change.kind == "pattern" else ("candidate", "s")
    said = [
        f"{count(len(found), noun, plural)} {how}"
        for how, found in (("lost", change.lost), ("gained", change.gained))
        if found
    ]
    if said:
        return ", ".join(said)
    return f"changed, {'not known on every graph' if change.unknown else 'the same on every graph'}"


def _matches(how: str, found: Sequence[MatchDocument]) -> Iterator[str]:
    """The first matches; a reason stands once, after all those in a row that it is for."""
    shown = found[:_SHOWN]
    for at, each in enumerate(shown):
        where = "" if each.version == "both" else f" (only in a test of the {each.version} version)"
        nodes = printable(", ".join(each.nodes))
        yield f'  {how}: {nodes}  in "{printable(each.test)}"{where}'
        following = shown[at + 1].reason if at + 1 < len(shown) else ""
        if each.reason and each.reason != following:
            yield f"    because {printable(each.reason)}"
    if len(found) > len(shown):
        yield f"  {how}: {len(found) - len(shown)} more"
