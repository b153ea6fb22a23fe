"""`collage check`."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from collage_dsl.cli.failure import CANNOT, WRONG
from collage_dsl.diagnostics import Diagnostic
from collage_dsl.language import check
from collage_dsl.source import Source


def check_files(files: Sequence[Path], output_format: str) -> int:
    """Print what is wrong with `files`; the exit code."""
    unreadable = False
    found: list[Diagnostic] = []
    for file in files:
        try:
            text = file.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            sys.stderr.write(f"error: cannot read {file}: {reason}\n")
            unreadable = True
            continue
        found.extend(check(Source(str(file), text)))
    sys.stdout.write(_render(found, files, output_format))
    if unreadable:
        return CANNOT
    return WRONG if any(d.is_error for d in found) else 0


def _render(found: Sequence[Diagnostic], files: Sequence[Path], output_format: str) -> str:
    match output_format:
        case "json":
            return json.dumps({"diagnostics": [_row(d) for d in found]}, indent=2) + "\n"
        case "concise":
            return "".join(str(diagnostic).splitlines()[0] + "\n" for diagnostic in found)
        case _:
            shown = "".join(f"{diagnostic}\n\n" for diagnostic in found)
            return shown + _summary(found, files)


def _summary(found: Sequence[Diagnostic], files: Sequence[Path]) -> str:
    checked = f"{len(files)} file{'s' * (len(files) != 1)} checked"
    if not found:
        return f"{checked}, nothing found\n"
    return f"{checked}, {len(found)} diagnostic{'s' * (len(found) != 1)}\n"


def _row(diagnostic: Diagnostic) -> dict[str, object]:
    line, column = diagnostic.span.source.position(diagnostic.span.start)
    end_line, end_column = diagnostic.span.source.position(diagnostic.span.end)
    return {
        "file": diagnostic.span.source.name,
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
        "severity": diagnostic.severity.value,
        "code": diagnostic.code,
        "message": diagnostic.message,
        "help": diagnostic.help,
    }
