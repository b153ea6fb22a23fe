"""Write diagnostics as text for people, in full or on one line each."""

from collage_dsl.cli.formats import Report
from collage_dsl.language.messages.findings import count


def full(report: Report) -> str:
    """Each diagnostic with the lines that it points at."""
    shown = "".join(f"{diagnostic}\n\n" for diagnostic in report.found)
    return shown + _summary(report)


def concise(report: Report) -> str:
    """One line for each diagnostic."""
    return "".join(str(diagnostic).partition("\n")[0] + "\n" for diagnostic in report.found)


def _summary(report: Report) -> str:
    """What was found, by severity, and how much of it makes the check fail, if not the errors."""
    said = [f"{count(len(report.files), 'file')} checked"]
    said += [f"{count(len(report.unread), 'file')} could not be checked"] if report.unread else []
    if not report.found:
        said += ["nothing found"] if report.files else []
        return ", ".join(said) + "\n"
    errors = [diagnostic for diagnostic in report.found if diagnostic.is_error]
    warnings = [diagnostic for diagnostic in report.found if not diagnostic.is_error]
    failing = sum(diagnostic in report.failing for diagnostic in warnings)
    said += [count(len(errors), "error")] if errors else []
    said += [count(len(warnings), "warning")] if warnings else []
    said += [f"{failing} of which fail{'s' * (failing == 1)}"] if failing else []
    return ", ".join(said) + "\n"
