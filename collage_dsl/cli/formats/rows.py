"""Write diagnostics as JSON for programs, with the schema `docs/schemas/check.json`."""

from dataclasses import asdict

from collage_dsl.cli.formats import Report
from collage_dsl.cli.formats.places import Place
from collage_dsl.diagnostics import Diagnostic, Fix, Note
from collage_dsl.printable import json_text
from collage_dsl.source import Span


def as_json(report: Report) -> str:
    answer = {
        "diagnostics": [row(diagnostic) for diagnostic in report.found],
        "unread": [asdict(each) for each in report.unread],
    }
    return json_text(answer)


def row(diagnostic: Diagnostic) -> dict[str, object]:
    """The fields of a `DiagnosticDocument`."""
    return {
        **_place(diagnostic.span),
        "severity": diagnostic.severity.value,
        "code": diagnostic.code,
        "message": diagnostic.message,
        "help": diagnostic.help,
        "notes": [_note(note) for note in diagnostic.notes],
        "fix": None if diagnostic.fix is None else _fix(diagnostic.fix),
    }


def _place(span: Span) -> dict[str, object]:
    return {"file": span.source.name, **asdict(Place.of(span))}


def _note(note: Note) -> dict[str, object]:
    return {"message": note.message, "place": None if note.span is None else _place(note.span)}


def _fix(fix: Fix) -> dict[str, object]:
    replacements = [{**asdict(Place.of(r.span)), "text": r.text} for r in fix.replacements]
    return {"title": fix.title, "replacements": replacements}
