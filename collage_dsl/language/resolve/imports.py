"""Find imported files and pattern tables, and give the names that an import makes visible."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path, PurePosixPath

from collage_dsl.diagnostics import Diagnostic, Note
from collage_dsl.language.messages.advice import file_of, operator_without_import
from collage_dsl.language.messages.findings import Findings, count, listed
from collage_dsl.language.messages.hints import Hint, closest, did_you_mean
from collage_dsl.language.reasoning.operators.calls import refuse
from collage_dsl.language.reasoning.patterns.pattern_shape import depth, size
from collage_dsl.language.resolve.pattern_tables import (
    ALL,
    NoTableError,
    Table,
    Tables,
    only_shipped,
    table,
    table_names,
)
from collage_dsl.language.resolve.rule_names import CheckedRule, refuse_parametric
from collage_dsl.language.resolve.scope import Member
from collage_dsl.language.syntax import ast
from collage_dsl.reading import real_path
from collage_dsl.rules import Pattern
from collage_dsl.rules.predicate import Predicate

MAX_DEPTH = 50
"""The longest allowed chain of files that import each other."""

SUFFIX = ".collage"

WHERE_SEARCHED = (
    "a file is searched beside this one, in the folders that a command, `path` in `[tool.collage]` "
    "or `search` in Python names, and among the shipped specs"
)

Definition = Pattern | tuple[Member, ...] | Predicate | CheckedRule
"""What a name may stand for: a pattern, a class of operators, a predicate, or a rule."""


@dataclass(frozen=True, slots=True)
class Exports:
    """
    The definitions of a file, without its targets and tests, and its first error if it has one.

    `depths` and `sizes` belong to its patterns, by `id`. `refused` has the names that exist but
    cannot be used, and why. `imported` has the names that the file imports itself, each with the
    path of the import and the name that it has there. `parametric` has the rules with parameters,
    which cannot be imported.
    """

    definitions: Mapping[str, Definition] = field(default_factory=dict)
    depths: Mapping[int, int] = field(default_factory=dict)
    sizes: Mapping[int, int] = field(default_factory=dict)
    errors: tuple[Diagnostic, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    imported: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    parametric: frozenset[str] = frozenset()


@dataclass(slots=True)
class Library:
    """
    The files that have been imported, each read once, for one file or for one after the other.

    A path is relative to the file that contains it, or else to one of the folders in `search`.
    """

    search: Sequence[Path]
    check: "Callable[[Path, str, Library], Exports]"
    loaded: dict[Path, Exports] = field(default_factory=dict)
    active: list[Path] = field(default_factory=list)
    texts: Mapping[Path, str] = field(default_factory=dict)
    """What files hold that are being edited, in place of what is on disk."""
    tables: Tables = only_shipped
    imported_tables: dict[str, Table] = field(default_factory=dict)
    """Kept, because the depths of patterns are known by identity."""
    clean: dict[Path, str] = field(default_factory=dict)
    """The texts of the imported files of which nothing was to report, by absolute path."""

    def for_another(self) -> "Library":
        """
        The same, for a file that is checked next. An imported file with errors is read again: they
        may be those of a chain of imports that began with the last file.
        """
        self.active.clear()
        self.loaded = {path: each for path, each in self.loaded.items() if not each.errors}
        return self

    def exports(
        self, written: ast.Import, folder: Path | None, findings: Findings
    ) -> Exports | None:
        """The definitions of the file; None after reporting why it cannot be imported."""
        if written.is_table:
            return table_exports(written, self, findings)
        found_at = self.find(written, folder, findings)
        if found_at is None:
            return None
        path = real_path(found_at)
        if path in self.active:
            message = f"`{written.path}` imports this file"
            hint = "move what both need into a file that imports neither"
            if path == self.active[-1]:
                message = "this file imports itself"
                hint = "remove it: a file can use its own names"
            findings.error("E0802", written.span, message, hint)
            return None
        if len(self.active) >= MAX_DEPTH:
            message = f"more than {MAX_DEPTH} files import each other here"
            findings.error("E0802", written.span, message)
            return None
        if path not in self.loaded:
            self.active.append(path)
            beside = folder is not None and found_at == folder / written.path
            name = str(found_at) if beside else written.path
            self.loaded[path] = self.check(found_at, name, self)
            self.active.pop()
        found = self.loaded[path]
        if found.errors:
            message = f"`{written.path}` has {count(len(found.errors), 'error')}"
            first = found.errors[0]
            notes = (
                Note(first.message, first.span),
                *(first.notes if first.code == "E0804" else ()),
            )
            findings.error("E0804", written.span, message, notes=notes)
            return None
        return found

    def table(self, name: str) -> Table:
        """The pattern table of that name: one that ships, else one that the caller has."""
        if name not in self.imported_tables:
            found = table(name) if name in table_names() else self.tables(name)
            self.imported_tables[name] = found
        return self.imported_tables[name]

    def find(self, written: ast.Import, folder: Path | None, findings: Findings) -> Path | None:
        """The file of an import; None after reporting why there is none."""
        if not _is_relative(written.path):
            findings.error("E0801", written.span, "an import needs a relative path")
            return None
        beside = [folder] if folder else []
        found = located(written.path, [*beside, *self.search], self.texts)
        if found is None:
            message, hint = f"there is no file `{written.path}`", self.instead(written, beside)
            findings.error("E0801", written.span, message, hint)
        return found

    def instead(self, written: ast.Import, beside: Sequence[Path]) -> str | Hint:
        """What an import of no file may have meant."""
        if not written.path.endswith(SUFFIX):
            longer = f"{written.path}{SUFFIX}"
            quoted = written.span.text.replace(written.path, longer, 1)
            return Hint(f"did you mean `{longer}`?", quoted)
        similar = self.similar(written, beside) or _of_library(written)
        similar = similar or self.similar(written, [*beside, *self.search])
        new = None if {'"', "\\"}.intersection(similar) else f'"{similar}"'
        return Hint(f"did you mean `{similar}`?", new) if similar else WHERE_SEARCHED

    def similar(self, written: ast.Import, folders: Sequence[Path]) -> str:
        """The file in one of the folders with the most similar name; empty if none is similar."""
        inside = PurePosixPath(written.path).parent
        found = chain.from_iterable(self.importable(folder, inside) for folder in folders)
        stem = closest(written.path.removesuffix(SUFFIX), found)
        return stem and f"{stem}{SUFFIX}"

    def importable(self, folder: Path, inside: PurePosixPath) -> Iterator[str]:
        """
        The names, as an import writes them but without the suffix, of the files of rules in a
        folder that do not import this one.
        """
        with suppress(OSError):
            for path in sorted((folder / inside).glob(f"*{SUFFIX}")):
                if real_path(path) not in self.active:
                    yield str(inside / path.stem)


def located(path: str, folders: Iterable[Path], texts: Mapping[Path, str]) -> Path | None:
    """
    The file that an import of `path` means, in the first of `folders` that has it. `texts` are
    those of files that are being edited, and may not be on disk.
    """
    if not _is_relative(path):
        return None
    places = (folder / path for folder in folders)
    return next((at for at in places if _is_file(at) or (texts and real_path(at) in texts)), None)


def _is_relative(path: str) -> bool:
    return bool(path) and not PurePosixPath(path).is_absolute() and "\0" not in path


def _of_library(written: ast.Import) -> str:
    """The file of the shipped library that defines an imported name; empty if none does."""
    return next(filter(None, (file_of(each.name.text) for each in written.names)), "")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # the name is too long for the file system
        return False


_MOST_DEFINED = 8
"""The most definitions of a file that a hint names."""


def _defined_in(exports: Exports) -> Hint:
    """A hint that names some of what a file defines."""
    names = sorted(exports.definitions)
    if not names:
        return Hint("it defines nothing")
    if len(names) <= _MOST_DEFINED:
        return Hint(f"it defines {listed(names, 'and')}")
    first = ", ".join(f"`{name}`" for name in names[:_MOST_DEFINED])
    return Hint(f"it defines {first} and {len(names) - _MOST_DEFINED} more")


def brought(
    written: ast.Import, exports: Exports, findings: Findings
) -> Iterator[tuple[str, Definition]]:
    """The names that an import makes visible, with their definitions."""
    if written.prefix is not None:
        for name, definition in exports.definitions.items():
            yield f"{written.prefix.text}.{name}", definition
    for imported in written.names:
        wanted = imported.name
        if wanted.text in exports.definitions:
            yield imported.visible.text, exports.definitions[wanted.text]
        elif wanted.text in exports.refused:
            refuse(wanted, exports.refused, findings)
        elif wanted.text in exports.parametric:
            refuse_parametric(wanted, findings)
        else:
            hint = operator_without_import(wanted.text)
            hint = hint or did_you_mean(wanted.text, exports.definitions)
            message = f"`{written.path}` does not define `{wanted.text}`"
            if wanted.text in exports.imported:
                path, name = exports.imported[wanted.text]
                visible = imported.visible.text
                names = name if name == visible else f"{name} as {visible}"
                message += ", it only imports it"
                hint = Hint(f'write `import "{path}" only ({names});`')
            hint = hint or _defined_in(exports)
            findings.error("E0803", wanted.span, message, hint)


def imports_in(file: ast.File) -> Mapping[str, tuple[str, str]]:
    """The names that a file imports one by one; each with the path, and its name in that file."""
    return {
        imported.visible.text: (item.path, imported.name.text)
        for item in file.items
        if isinstance(item, ast.Import)
        for imported in item.names
    }


def table_exports(written: ast.Import, library: Library, findings: Findings) -> Exports | None:
    """What a pattern table brings: its patterns, and the rule `all`."""
    try:
        found = library.table(written.path)
    except NoTableError as problem:
        message = f"there is no pattern table `{written.path}`"
        known = f"the tables are {listed(table_names(), 'and')}"
        close = did_you_mean(written.path, table_names())
        if close.new:
            close = Hint(close, written.span.text.replace(written.path, close.new, 1))
        notes = () if close else (Note(str(problem)),)
        findings.error("E0810", written.span, message, close or known, notes)
        return None
    depths = {id(pattern): _depth(pattern) for pattern in found.patterns.values()}
    sizes = {id(p): sum(size(b.value, {}) for b in p.bindings) for p in found.patterns.values()}
    everything = CheckedRule(found.all, 3, 1 + 2 * len(found.all.rules))
    return Exports({**found.patterns, ALL: everything}, depths, sizes, refused=found.refused)


def _depth(pattern: Pattern) -> int:
    depths: dict[str, int] = {}
    for binding in pattern.bindings:
        depths[binding.name] = depth(binding.value, depths, {})
    return max(depths.values())
