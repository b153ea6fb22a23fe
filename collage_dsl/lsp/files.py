"""The files of a workspace. The text in the editor takes precedence over the file on disk."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

from collage_dsl.diagnostics import Diagnostic
from collage_dsl.language import UnreadableError, read
from collage_dsl.language.resolve.imports import located
from collage_dsl.language.syntax import ast
from collage_dsl.lsp.documents import Document
from collage_dsl.lsp.names import Definition, External
from collage_dsl.lsp.positions import Encoding
from collage_dsl.reading import real_path
from collage_dsl.resources import folder as shipped_folder
from collage_dsl.rules import Pattern
from collage_dsl.source import NEVER_SEARCHED, Source

_MOST_FILES = 2000
"""The most files in a folder of a workspace that are examined."""


@dataclass(frozen=True, slots=True)
class Settings:
    """
    The configuration of a repository: folders in which imports are searched, codes of warnings
    that are not shown, and what is wrong with the configuration itself.
    """

    path: tuple[Path, ...] = ()
    ignore: frozenset[str] = frozenset()
    problem: str = ""


def no_settings(file: Path) -> Settings:
    return Settings()


@dataclass(frozen=True, slots=True)
class Check:
    """
    What the last check of a document found, when the texts had this `version`, and its patterns.
    A pattern that has a mistake now is as it was when it last had none.
    """

    document: Document
    version: int
    found: tuple[Diagnostic, ...]
    patterns: Mapping[str, Pattern]


@dataclass(slots=True)
class Files:
    """
    Documents by their resolved paths. `folders` are those of the workspace; `settings` gives the
    settings for a file.
    """

    settings: Callable[[Path], Settings] = no_settings
    folders: tuple[Path, ...] = ()
    encoding: Encoding = "utf-16"
    texts: dict[Path, str] = field(default_factory=dict)
    """The texts of the open documents."""
    version: int = 0
    """How often these texts have changed."""
    checks: dict[Path, Check] = field(default_factory=dict)
    _known: dict[Path, Document] = field(default_factory=dict)
    _parsed: dict[Path, Document] = field(default_factory=dict)
    """The last text of each file that was parsed before it changed."""

    def open(self, path: Path, text: str) -> Document:
        """The document at `path`, which has this text from now on."""
        self.texts[path] = text
        self.version += 1
        return self._document(path, text)

    def close(self, path: Path) -> None:
        self.texts.pop(path, None)
        self.version += 1
        self.checks.pop(path, None)
        self._known.pop(path, None)
        self._parsed.pop(path, None)

    def document(self, path: Path) -> Document | None:
        """The document at `path`, open or on disk; None if it cannot be read."""
        text = self.texts.get(path)
        if text is not None:
            return self._document(path, text)
        try:
            return self._document(path, read(path).text)
        except UnreadableError:
            return None

    def _document(self, path: Path, text: str) -> Document:
        found = self._known.get(path)
        if found is None or found.text != text or found.encoding != self.encoding:
            if found is not None and found.is_parsed:
                self._parsed[path] = found
            found = self._known[path] = Document(path, text, self.encoding)
        return found

    def last_parsed(self, document: Document) -> Document:
        """`document` if it is parsed, else the last text of this file that was, if there is one."""
        return document if document.is_parsed else self._parsed.get(document.path, document)

    # Imports.

    def imported(self, document: Document, path: str) -> Path | None:
        """The file that `document` imports as `path`."""
        beside = [document.folder] if document.folder else []
        found = located(path, [*beside, *self.search(document)], self.texts)
        return None if found is None else real_path(found)

    def search(self, document: Document) -> Sequence[Path]:
        return (*self.settings(document.path).path, shipped_folder("specs"))

    def definition(
        self, document: Document, of: External
    ) -> tuple[Document, Definition | None] | None:
        """The file that `of` is in, and its definition there; None if there is no such file."""
        path = self.imported(document, of.path)
        other = None if path is None else self.document(path)
        if other is None:
            return None
        found = other.names.definitions.get(of.name)
        # A file does not pass on its imports, so an imported name does not count.
        return other, found if found is not None and found.of is None else None

    def origin(
        self, document: Document, definition: Definition
    ) -> tuple[Document, Definition] | None:
        """The original definition of a name. For an imported name it is in another file."""
        if definition.of is None or not definition.of.name:
            return document, definition
        found = self.definition(document, definition.of)
        return None if found is None or found[1] is None else (found[0], found[1])

    # The workspace.

    def workspace(self, document: Document) -> Iterator[Document]:
        """
        The files of the workspace and all open files, `document` first. If no folder is open, the
        folder of `document` is the workspace.
        """
        yield document
        folder = document.folder
        roots = self.folders or ((folder,) if folder else ())
        for other in self.below(roots):
            if other is not document:
                yield other

    def below(self, roots: Sequence[Path]) -> Iterator[Document]:
        """All open files, and those in the folders `roots`."""
        files = (islice(_spec_files(root), _MOST_FILES) for root in roots)
        found = map(real_path, chain.from_iterable(files))
        for path in dict.fromkeys([*self.texts, *found]):
            if other := self.document(path):
                yield other

    def contains(self, document: Document) -> bool:
        """Whether `document` is in the workspace. Only then it may be changed."""
        path = document.path
        if path.is_relative_to(real_path(shipped_folder("specs"))):
            return False  # even where the package is installed in the workspace
        for folder in self.folders:
            if path.is_relative_to(root := real_path(folder)):
                return not NEVER_SEARCHED.intersection(path.relative_to(root).parts)
        return path in self.texts

    def importers(self, document: Document) -> Iterator[tuple[Document, frozenset[str]]]:
        """The files of the workspace that import `document`, each with the paths it writes."""
        for other in self.workspace(document):
            if other is document:
                continue
            imports = [item for item in other.file.items if isinstance(item, ast.Import)]
            written = {item.path for item in imports if not item.is_table}
            paths = {path for path in written if self.imported(other, path) == document.path}
            if paths:
                yield other, frozenset(paths)

    def path_of(self, source: Source, document: Document) -> Path | None:
        """The file that `source`, in a diagnostic about `document`, was read from."""
        if source.name == document.source.name:
            return document.path
        path = Path(source.name)
        return real_path(path) if path.is_file() else self.imported(document, source.name)


def _spec_files(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - NEVER_SEARCHED)
        yield from (Path(folder) / name for name in sorted(names) if name.endswith(".collage"))
