"""Write diagnostics as text for people, in full or on one line each."""

from collections.abc import Sequence
from pathlib import Path

from collage_dsl.diagnostics import Diagnostic


def full(found: Sequence[Diagnostic], files: Sequence[Path]) -> str:
    """Each diagnostic with the lines that it points at."""
    shown = "".join(f"{diagnostic}\n\n" for diagnostic in found)
    return shown + _summary(found, files)


def concise(found: Sequence[Diagnostic], files: Sequence[Path]) -> str:
    """One line for each diagnostic."""
    return "".join(str(diagnostic).partition("\n")[0] + "\n" for diagnostic in found)


def _summary(found: Sequence[Diagnostic], files: Sequence[Path]) -> str:
    checked = f"{len(files)} file{'s' * (len(files) != 1)} checked"
    if not found:
        return f"{checked}, nothing found\n"
    return f"{checked}, {len(found)} diagnostic{'s' * (len(found) != 1)}\n"
