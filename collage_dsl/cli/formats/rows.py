"""Write diagnostics as JSON for programs, with the schema `docs/schemas/check.json`."""

from collage_dsl.cli.formats import Report
from collage_dsl.cli.formats.places import Place
from collage_dsl.diagnostics import Diagnostic
from collage_dsl.printable import json_text


def as_json(report: Report) -> str:
    return json_text({"diagnostics": [_row(diagnostic) for diagnostic in report.found]})


def _row(diagnostic: Diagnostic) -> dict[str, object]:
    place = Place.of(diagnostic.span)
    return {
        "file": diagnostic.span.source.name,
        "line": place.line,
        "column": place.column,
        "end_line": place.end_line,
        "end_column": place.end_column,
        "severity": diagnostic.severity.value,
        "code": diagnostic.code,
        "message": diagnostic.message,
        "help": diagnostic.help,
    }
