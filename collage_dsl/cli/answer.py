"""Write the answer of a command: JSON or text on standard output, and pictures to files."""

from pathlib import Path

from collage_dsl.cli.failure import writing
from collage_dsl.cli.output import show, write
from collage_dsl.printable import json_text
from collage_dsl.report.documents import Document
from collage_dsl.scratch import replacement


def answer(document: Document, text: str, output_format: str) -> None:
    """Write `document` as JSON, or `text` for people."""
    if output_format == "json":
        write(json_text(document.plain()))
    else:
        show(text)


def write_picture(file: Path, picture: str) -> None:
    """Raises `CommandError`."""
    with writing(file), replacement(file) as new:
        new.write_text(picture, "utf-8")
