"""`collage check`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from collage_dsl.cli.failure import CANNOT, WRONG
from collage_dsl.cli.files import spec_files
from collage_dsl.cli.formats import render
from collage_dsl.diagnostics import Diagnostic
from collage_dsl.language import UnreadableError, check, read


def check_files(paths: Sequence[Path], output_format: str) -> int:
    """Print what is wrong with what is at `paths`; the exit code, for every format the same."""
    unreadable = False
    found: list[Diagnostic] = []
    files = spec_files(paths)
    for file in files:
        try:
            found.extend(check(read(file)))
        except UnreadableError as problem:
            sys.stderr.write(f"error: {problem}\n")
            unreadable = True
    sys.stdout.write(render(output_format, found, files))
    if unreadable:
        return CANNOT
    return WRONG if any(d.is_error for d in found) else 0
