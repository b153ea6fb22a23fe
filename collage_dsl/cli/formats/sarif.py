"""Write diagnostics as SARIF 2.1.0 for code scanning services."""

from collections.abc import Sequence
from importlib.metadata import version

from collage_dsl.cli.formats import Report, Unread
from collage_dsl.cli.formats.places import Place, fingerprints, uri
from collage_dsl.diagnostics import Diagnostic, Fix, Note
from collage_dsl.language.messages.explanations import explanation
from collage_dsl.printable import json_text
from collage_dsl.source import Span

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


def log(report: Report) -> str:
    found = report.found
    rules = sorted({diagnostic.code for diagnostic in found})
    marks = fingerprints(found)
    run: dict[str, object] = {
        "tool": {
            "driver": {
                "name": "collage",
                "semanticVersion": version("collage_dsl"),
                "rules": [_rule(code) for code in rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(d, rules.index(d.code), m) for d, m in zip(found, marks, strict=True)],
    }
    if report.unread:
        run["invocations"] = [_failed(report.unread)]
    return json_text({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]})


def _failed(unread: Sequence[Unread]) -> dict[str, object]:
    """What says that the results are not those of all files."""
    said = [{"level": "error", "message": {"text": each.message}} for each in unread]
    return {"executionSuccessful": False, "toolExecutionNotifications": said}


def _rule(code: str) -> dict[str, object]:
    about = explanation(code)
    return {
        "id": code,
        "shortDescription": {"text": about.title},
        "help": {"text": about.page, "markdown": about.page},
        "defaultConfiguration": {"level": "warning" if code.startswith("W") else "error"},
    }


def _result(diagnostic: Diagnostic, rule: int, fingerprint: str) -> dict[str, object]:
    text = diagnostic.message + (f"\nhelp: {diagnostic.help}" if diagnostic.help else "")
    result: dict[str, object] = {
        "ruleId": diagnostic.code,
        "ruleIndex": rule,
        "level": diagnostic.severity.value,
        "message": {"text": text},
        "locations": [{"physicalLocation": _location(diagnostic.span)}],
        "partialFingerprints": {"primaryLocationLineHash": fingerprint},
    }
    if related := [_related(note) for note in diagnostic.notes]:
        result["relatedLocations"] = related
    if diagnostic.fix is not None:
        result["fixes"] = [_fix(diagnostic.fix)]
    return result


def _fix(fix: Fix) -> dict[str, object]:
    """All replacements of a fix are in one file."""
    location = _location(fix.replacements[0].span)
    replacements = [
        {"deletedRegion": _region(each.span), "insertedContent": {"text": each.text}}
        for each in fix.replacements
    ]
    change = {"artifactLocation": location["artifactLocation"], "replacements": replacements}
    return {"description": {"text": fix.title}, "artifactChanges": [change]}


def _related(note: Note) -> dict[str, object]:
    related: dict[str, object] = {"message": {"text": note.message}}
    if note.span is not None:
        related["physicalLocation"] = _location(note.span)
    return related


def _location(span: Span) -> dict[str, object]:
    where = uri(span.source.name)
    base = {} if ":" in where.partition("/")[0] else {"uriBaseId": "%SRCROOT%"}
    return {
        "artifactLocation": {"uri": where, **base},
        "region": _region(span),
    }


def _region(span: Span) -> dict[str, object]:
    place = Place.of(span)
    return {
        "startLine": place.line,
        "startColumn": place.column,
        "endLine": place.end_line,
        "endColumn": place.end_column,
    }
