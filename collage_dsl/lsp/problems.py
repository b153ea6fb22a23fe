"""Report the findings of `collage check` for a document, and keep the patterns it has."""

from collage_dsl.diagnostics import Diagnostic
from collage_dsl.language.loading import check_contents
from collage_dsl.lsp.documents import Document
from collage_dsl.lsp.files import Check, Files


def problems(document: Document, files: Files) -> tuple[Diagnostic, ...]:
    """
    The diagnostics in file order, without those that the configuration ignores.

    Imported files that are open are read from the editor.
    """
    settings = files.settings(document.path)
    version = files.version
    found, patterns = check_contents(
        document.source,
        settings.path,
        folder=document.folder,
        texts=dict(files.texts),
        parsed=document.parsed,
    )
    shown = tuple(diagnostic for diagnostic in found if diagnostic.code not in settings.ignore)
    old = files.checks.get(document.path)
    known = {**(old.patterns if old else {}), **patterns}
    kept = {name: known[name] for name in document.names.definitions if name in known}
    files.checks[document.path] = Check(document, version, shown, kept)
    return shown


def last_problems(document: Document, files: Files) -> tuple[Diagnostic, ...]:
    """Like `problems`, without another check where no open text has changed since the last."""
    last = files.checks.get(document.path)
    if last is not None and last.document is document and last.version == files.version:
        return last.found
    return problems(document, files)
