"""What is wrong with a document: the findings of `collage check`."""

from collage_dsl.diagnostics import Diagnostic
from collage_dsl.language import check
from collage_dsl.lsp.documents import Document
from collage_dsl.lsp.files import Files


def problems(document: Document, files: Files) -> tuple[Diagnostic, ...]:
    """In file order, less those that the configuration ignores; open files as they are there."""
    settings = files.settings(document.path)
    found = check(document.source, settings.path, folder=document.folder, texts=files.texts)
    return tuple(diagnostic for diagnostic in found if diagnostic.code not in settings.ignore)
