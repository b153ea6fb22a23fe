"""Write diagnostics as GitHub workflow commands, which become annotations of the changed lines."""

from collections.abc import Sequence
from pathlib import Path

from collage_dsl.cli.formats.places import Place, relative
from collage_dsl.diagnostics import Diagnostic
from collage_dsl.printable import printable, printable_lines


def annotations(found: Sequence[Diagnostic], files: Sequence[Path]) -> str:
    return "".join(f"{_command(diagnostic)}\n" for diagnostic in found)


def _command(diagnostic: Diagnostic) -> str:
    place = Place.of(diagnostic.span)
    properties = {
        "file": printable(relative(diagnostic.span.source.name)),
        "line": place.line,
        "col": place.column,
        "endLine": place.end_line,
        "endColumn": place.end_column,
        "title": f"collage {diagnostic.code}",
    }
    told = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items())
    text = diagnostic.message + (f"\nhelp: {diagnostic.help}" if diagnostic.help else "")
    return f"::{diagnostic.severity.value} {told}::{_data(printable_lines(text))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
