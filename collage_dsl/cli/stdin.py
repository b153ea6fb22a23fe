"""Read a spec from standard input, which `-` stands for on the command line."""

import sys
from pathlib import Path

from collage_dsl.source import Source

STDIN = Path("-")

NO_NAME = "<stdin>"
"""The name of standard input in messages, if it is given no other."""


def read_stdin(name: str = NO_NAME) -> Source:
    """The text of standard input. Raises UnreadableError."""
    from collage_dsl.language import UnreadableError

    try:
        return Source(name, sys.stdin.buffer.read().decode("utf-8-sig"))
    except UnicodeDecodeError as problem:
        reason = f"it is not UTF-8 (byte {problem.start})"
        raise UnreadableError(f"cannot read {name}: {reason}") from None
