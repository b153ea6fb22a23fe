"""Report the findings of `collage check` for a document."""

from collage_dsl.diagnostics import Diagnostic
from collage_dsl.language import check
from collage_dsl.lsp.documents import Document
from collage_dsl.lsp.files import Files


def problems(document: Document, files: Files) -> tuple[Diagnostic, ...]:
    """
    The diagnostics in file order, without those that the configuration ignores.

    Imported files that are open are read from the editor.
    """
    settings = files.settings(document.path)
    found = check(document.source, settings.path, folder=document.folder, texts=files.texts)
    return tuple(diagnostic for diagnostic in found if diagnostic.code not in settings.ignore)
