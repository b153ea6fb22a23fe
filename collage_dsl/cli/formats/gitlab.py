"""Write diagnostics as a Code Quality report of GitLab."""

from collage_dsl.cli.formats import Report, Unread
from collage_dsl.cli.formats.places import Place, fingerprint, fingerprints, relative
from collage_dsl.diagnostics import Diagnostic
from collage_dsl.printable import json_text


def code_quality(report: Report) -> str:
    marks = fingerprints(report.found)
    issues = [_issue(d, mark) for d, mark in zip(report.found, marks, strict=True)]
    return json_text([*map(_unread, report.unread), *issues])


def _issue(diagnostic: Diagnostic, mark: str) -> dict[str, object]:
    place = Place.of(diagnostic.span)
    return {
        "description": f"{diagnostic.code}: {diagnostic.message}",
        "check_name": diagnostic.code,
        "fingerprint": mark,
        "severity": "major" if diagnostic.is_error else "minor",
        "location": {
            "path": relative(diagnostic.span.source.name),
            "positions": {
                "begin": {"line": place.line, "column": place.column},
                "end": {"line": place.end_line, "column": place.end_column},
            },
        },
    }


def _unread(unread: Unread) -> dict[str, object]:
    path = relative(unread.file)
    return {
        "description": unread.message,
        "check_name": "unread",
        "fingerprint": fingerprint("unread", path),
        "severity": "critical",
        "location": {"path": path, "lines": {"begin": 1}},
    }
