"""Read `.collage` files: `load` gives the fusion specs of one, `check` its errors and warnings."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from collage_dsl.diagnostics import Diagnostic, RuleError
from collage_dsl.language.messages.findings import Findings, without_too_many
from collage_dsl.language.resolve.file import Contents, FileChecker
from collage_dsl.language.resolve.ignores import without_ignored
from collage_dsl.language.resolve.imports import Definition, Exports, Library
from collage_dsl.language.resolve.pattern_tables import Tables, only_shipped
from collage_dsl.language.syntax import ast
from collage_dsl.language.syntax.parser import parse_file
from collage_dsl.language.syntax.whole_text import MAX_CHARACTERS
from collage_dsl.memory import uncollected
from collage_dsl.reading import cause_of, content_of, real_path
from collage_dsl.resources import folder as shipped_folder
from collage_dsl.rules import FusionSpec, Pattern
from collage_dsl.source import Source, Span

_MOST_BYTES = 4 * MAX_CHARACTERS + 4
"""More bytes than any text of MAX_CHARACTERS characters has."""


class UnreadableError(Exception):
    """A file cannot be read at all: it is missing, a folder, or not text in UTF-8."""


def load(
    path: str | Path | None = None,
    *,
    text: str | None = None,
    name: str | None = None,
    search: Sequence[str | Path] = (),
    tables: Tables = only_shipped,
) -> Mapping[str, FusionSpec]:
    """
    The fusion specs of the file at `path`, or in `text`, by the names of their targets and
    in file order. Messages call the text `name`. Imported files are searched beside the file, in
    the folders of `search`, and among the shipped specs; `tables` finds pattern tables that are
    not shipped.

    Raises RuleError with all errors, UnreadableError if the file cannot be read.
    """
    source, folder = _given(path, text, name)
    return load_contents(source, search, folder=folder, tables=tables).specs


def load_contents(
    source: Source,
    search: Sequence[str | Path] = (),
    *,
    folder: Path | None = None,
    tables: Tables = only_shipped,
) -> Contents:
    """The specs, tests and patterns in `source`. Raises RuleError with all errors."""
    findings = Findings()
    contents = Contents({})
    with findings.limited():
        contents = _contents(source, findings, imported(search, tables=tables), folder)
    findings.raise_errors()
    from collage_dsl.language.write.linking import with_distinct_names  # no check needs it

    return replace(contents, specs=with_distinct_names(contents.specs))


def patterns(
    path: str | Path | None = None,
    *,
    text: str | None = None,
    name: str | None = None,
    search: Sequence[str | Path] = (),
    tables: Tables = only_shipped,
) -> Mapping[str, Pattern]:
    """
    The patterns of the file at `path`, or in `text`, by name: its own and the imported ones.

    Arguments and errors are those of `load`.
    """
    source, folder = _given(path, text, name)
    return load_contents(source, search, folder=folder, tables=tables).patterns


def _given(
    path: str | Path | None, text: str | None, name: str | None
) -> tuple[Source, Path | None]:
    """The source from a file or a text, and the folder of the file if there is one."""
    if path is not None and text is None:
        return read(path, name), Path(path).parent
    if text is not None and path is None:
        return Source(name or "<text>", text), None
    raise TypeError("give either a path or a text")


def definitions(
    path: str | Path, search: Sequence[str | Path] = (), *, tables: Tables = only_shipped
) -> Mapping[str, Definition]:
    """
    The definitions of the file at `path` by name: patterns, classes, predicates, and rules
    without parameters. If there is no such file, `path` is searched like an import. Raises
    RuleError with the errors that an import would report.
    """
    findings = Findings()
    library = imported(search, tables=tables)
    found_at: Path | None = Path(path)
    if not Path(path).is_file():
        said = Span(Source("<import>", str(path)), 0, len(str(path)))
        found_at = library.find(ast.Import(str(path), None, (), said), None, findings)
    findings.raise_errors()
    assert found_at is not None
    library.active.append(real_path(found_at))
    exports = _exports(found_at, str(found_at), library)
    if exports.errors:
        raise RuleError(*exports.errors)
    return exports.definitions


def imported_files(path: Path) -> tuple[Path, ...]:
    """The files that the spec file at `path` imports, directly or not; none if it is no such."""
    library = imported()
    with suppress(UnreadableError):
        check(read(path), library=library)
    return tuple(library.loaded)


@dataclass(frozen=True, slots=True)
class Parsed:
    """The syntax of a file, and its syntax errors."""

    file: ast.File
    errors: tuple[Diagnostic, ...]


def check(
    source: Source,
    search: Sequence[str | Path] = (),
    *,
    folder: Path | None = None,
    texts: Mapping[Path, str] | None = None,
    tables: Tables = only_shipped,
    library: Library | None = None,
) -> tuple[Diagnostic, ...]:
    """
    Every error and warning about `source`, in file order. Imports are searched in `folder`, or
    else beside the file that the source is named after, and then where `load` searches. `texts`
    has the contents of files that are being edited. A `library` (see `imported`) has folders, texts
    and tables of its own. A file that it has found nothing wrong with is not examined again.
    """
    if library is not None and _is_clean(source, folder, library):
        return without_ignored(source, ())
    return check_contents(
        source, search, folder=folder, texts=texts, tables=tables, library=library
    )[0]


def check_contents(
    source: Source,
    search: Sequence[str | Path] = (),
    *,
    folder: Path | None = None,
    texts: Mapping[Path, str] | None = None,
    tables: Tables = only_shipped,
    parsed: Parsed | None = None,
    library: Library | None = None,
) -> tuple[tuple[Diagnostic, ...], Mapping[str, Pattern]]:
    """
    Like `check`, with the patterns that are right, by name. `parsed` spares parsing `source` again.
    """
    findings = Findings()
    found: Mapping[str, Pattern] = {}
    library = library or imported(search, tables=tables, texts=texts or {})
    with uncollected(), findings.limited():
        found = _contents(source, findings, library.for_another(), folder, parsed).patterns
    return without_too_many(without_ignored(source, findings.in_order())), found


def read(path: str | Path, name: str | None = None) -> Source:
    """The text of the file at `path`. Raises UnreadableError."""
    try:
        content = content_of(path, _MOST_BYTES)
        errors = "strict" if len(content) < _MOST_BYTES else "replace"
        return Source(name or str(path), content.decode("utf-8-sig", errors))
    except UnicodeDecodeError as problem:
        why = f"it is not UTF-8 (byte {problem.start})"
    except OSError as problem:
        why = cause_of(problem)
    except ValueError:
        why = "its name has a null character"
    raise UnreadableError(f"cannot read {path}: {why}")


def imported(
    search: Sequence[str | Path] = (),
    *,
    tables: Tables = only_shipped,
    texts: Mapping[Path, str] = MappingProxyType({}),
) -> Library:
    """
    The files that others import, none yet. Calls of `check` that are given the same ones read each
    of them once, while no file changes.
    """
    folders = (*map(Path, search), shipped_folder("specs"))
    return Library(folders, _exports, texts=texts, tables=tables)


def _contents(
    source: Source,
    findings: Findings,
    library: Library,
    folder: Path | None = None,
    parsed: Parsed | None = None,
) -> Contents:
    if parsed is None:
        file = parse_file(source, findings)
    else:
        file = parsed.file
        findings.add_all(parsed.errors)
    path = _path_of(source)
    if path is not None:
        library.active.append(real_path(path))
        folder = folder or path.parent
    return FileChecker(file, findings, library, folder).run()


def _is_clean(source: Source, folder: Path | None, library: Library) -> bool:
    """Whether `source` was read as an import before, and there was nothing to report."""
    path = _path_of(source)
    if path is None or folder not in (None, path.parent):
        return False
    return library.clean.get(path.absolute()) == source.text


def _path_of(source: Source) -> Path | None:
    """The file that has the name of the source, if there is one."""
    try:
        return Path(source.name) if Path(source.name).is_file() else None
    except (ValueError, OSError):  # the name contains a null character or is too long
        return None


def _exports(path: Path, name: str, library: Library) -> Exports:
    """The definitions of the file at `path`; messages call it `name`."""
    findings = Findings()
    file = ast.File((), ())
    try:
        text = library.texts.get(real_path(path))
        with findings.limited():
            written = read(path, name) if text is None else Source(name, text)
            file = parse_file(written, findings)
    except UnreadableError as problem:
        findings.error("E0801", Span(Source(name, ""), 0, 0), str(problem))
    checker = FileChecker(file, findings, library, path.parent)
    with findings.limited():
        checker.run()
        if not findings.count:
            library.clean[path.absolute()] = written.text
        return checker.exports()
    return Exports(errors=tuple(findings.in_order()))
