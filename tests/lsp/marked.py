"""Texts with a cursor in them."""

from pathlib import Path

from collage_dsl.lsp.documents import Document
from collage_dsl.lsp.files import Files

PATH = Path("/nowhere/a.collage")


def marked(text: str, path: Path = PATH) -> tuple[Document, int]:
    """`text` without the `¦` that shows where the cursor is, and its offset."""
    offset = text.index("¦")
    return Document(path, text.replace("¦", "")), offset


def opened(folder: Path, **texts: str) -> tuple[Files, dict[str, Document]]:
    """Files of a workspace in `folder`, on disk and open."""
    files = Files(folders=(folder,))
    for name, text in texts.items():
        (folder / f"{name}.collage").write_text(text)
    made = {n: files.open((folder / f"{n}.collage").resolve(), t) for n, t in texts.items()}
    return files, made
