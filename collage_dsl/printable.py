"""Escape text for terminals and logs, so that a name in it is shown and does nothing."""

import json
import re

ACTING = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
    r"(?<!\r(?=\n))(?<!\r(?=\Z))"
)
"""A character that a terminal or editor acts upon; not the end of a line."""

_MARKER = re.compile(r"#(?=#(?:vso|teamcity)?\[)", re.IGNORECASE)
"""Of `##[`, `##vso[` and `##teamcity[`: Azure and TeamCity look for them anywhere in a line."""

_HALF = re.compile(r"(\\\\|\\ud[89ab]\w\w\\ud[c-f]\w\w)|\\(ud[89a-f]\w\w)")
"""An escape in JSON of half a character, in group 2. Group 1 has what looks similar."""

_COMMAND = re.compile(r"^(\s*):(?=:)")
"""Of `::error …` at the start of a line, after spaces too: GitHub looks for it there."""


def printable(text: str) -> str:
    r"""
    `text` in one line. What is not visible, moves the cursor, changes the direction of writing or
    starts a command of a CI service is written as an escape: `\x1b`, `\n`, `\u202e`.
    """
    if not text.isprintable():
        text = "".join(each if each.isprintable() else _escape(each) for each in text)
    return without_markers(text, r"\x23")


def without_markers(text: str, escape: str) -> str:
    """`text` with `escape` in place of the first `#` of `##vso[` and the like."""
    return _MARKER.sub(lambda _: escape, text) if "##" in text else text


def printable_lines(text: str) -> str:
    """`text` with each of its lines printable. None is a command of a CI service."""
    return "\n".join(map(_line, text.split("\n")))


def json_text(document: object) -> str:
    """`document` as JSON in ASCII, which holds nothing that a terminal or CI service acts upon."""
    text = _HALF.sub(lambda found: found[1] or rf"\\{found[2]}", json.dumps(document, indent=2))
    return without_markers(text, r"\u0023") + "\n"


def well_formed(text: str) -> str:
    """`text` with escapes for bytes of a file name that are not UTF-8, which JSON cannot hold."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _line(text: str) -> str:
    shown = printable(text)
    return _COMMAND.sub(r"\1\\x3a", shown) if _COMMAND.match(shown) else shown


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
