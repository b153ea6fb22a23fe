"""Escape text for terminals and logs, so that a name in it is shown and does nothing."""

import re

ACTING = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
    r"(?<!\r(?=\n))(?<!\r(?=\Z))"
)
"""A character that a terminal or editor acts upon; not the end of a line."""

MARKER = re.compile(r"#(?=#(?:vso|teamcity)?\[)", re.IGNORECASE)
"""Of `##[`, `##vso[` and `##teamcity[`: Azure and TeamCity look for them anywhere in a line."""

_COMMAND = re.compile(r"^(\s*):(?=:)")
"""Of `::error …` at the start of a line, after spaces too: GitHub looks for it there."""


def printable(text: str) -> str:
    r"""
    `text` in one line. What is not visible, moves the cursor, changes the direction of writing or
    starts a command of a CI service is written as an escape: `\x1b`, `\n`, `\u202e`.
    """
    if not text.isprintable():
        text = "".join(each if each.isprintable() else _escape(each) for each in text)
    return MARKER.sub(r"\\x23", text) if "##" in text else text


def printable_lines(text: str) -> str:
    """`text` with each of its lines printable. None is a command of a CI service."""
    return "\n".join(map(_line, text.split("\n")))


def well_formed(text: str) -> str:
    """`text` with escapes for bytes of a file name that are not UTF-8, which JSON cannot hold."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _line(text: str) -> str:
    shown = printable(text)
    return _COMMAND.sub(r"\1\\x3a", shown) if _COMMAND.match(shown) else shown


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
