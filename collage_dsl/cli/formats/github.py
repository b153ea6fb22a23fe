"""Write diagnostics as GitHub workflow commands, which become annotations of the changed lines."""

from collage_dsl.cli.formats import Report
from collage_dsl.cli.formats.places import Place, relative
from collage_dsl.diagnostics import Diagnostic
from collage_dsl.printable import printable, printable_lines


def annotations(report: Report) -> str:
    unread = (f"::error title=collage::{_data(printable_lines(u.message))}" for u in report.unread)
    return "".join(f"{line}\n" for line in (*unread, *map(_command, report.found)))


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
    notes = [f"note: {note.message}" for note in diagnostic.notes if note.span is None]
    help_ = [f"help: {diagnostic.help}"] if diagnostic.help else []
    text = "\n".join([diagnostic.message, *notes, *help_])
    return f"::{diagnostic.severity.value} {told}::{_data(printable_lines(text))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
