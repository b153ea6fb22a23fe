"""Write diagnostics as JSON for programs, with the schema `docs/schemas/check.json`."""

from dataclasses import asdict

from collage_dsl.cli.formats import Report
from collage_dsl.cli.formats.places import Place
from collage_dsl.diagnostics import Diagnostic, Fix
from collage_dsl.printable import json_text


def as_json(report: Report) -> str:
    return json_text({"diagnostics": [row(diagnostic) for diagnostic in report.found]})


def row(diagnostic: Diagnostic) -> dict[str, object]:
    """The fields of a `DiagnosticDocument`."""
    return {
        "file": diagnostic.span.source.name,
        **asdict(Place.of(diagnostic.span)),
        "severity": diagnostic.severity.value,
        "code": diagnostic.code,
        "message": diagnostic.message,
        "help": diagnostic.help,
        "fix": None if diagnostic.fix is None else _fix(diagnostic.fix),
    }


def _fix(fix: Fix) -> dict[str, object]:
    replacements = [{**asdict(Place.of(r.span)), "text": r.text} for r in fix.replacements]
    return {"title": fix.title, "replacements": replacements}
