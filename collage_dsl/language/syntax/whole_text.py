"""What is found out about a text as a whole, before it is parsed."""

import re

from collage_dsl.diagnostics import Fix, Replacement
from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.messages.hints import Hint, write
from collage_dsl.printable import ACTING
from collage_dsl.source import Source, Span

EDITION = 1
"""The edition of the language that this package reads."""

FENCE = "```"
"""What stands around a text in Markdown."""

MAX_CHARACTERS = 1 << 17
"""A longer text is not parsed."""

_FREE = re.compile(r"""\#[^\n]* | "(?:[^"\\\n]++|\\[^\n])*+"? | `[^`\n]*+`?""", re.VERBOSE)
"""A comment, a string or a name in backquotes, closed or not: where any character is text."""

_ENDS_OF_LINES = "\r\x85\u2028\u2029"
"""Characters that end a line in some editors, but no comment here."""

_BLANK = r"(?:\s|\#[^\n]*)*+"
_EDITION = re.compile(rf"{_BLANK}collage(?!\.?\w){_BLANK}([0-9][\w.]*)?")


def is_small(source: Source, findings: Findings) -> bool:
    """Whether `source` is small enough to be parsed; reports that it is too large."""
    if len(source.text) <= MAX_CHARACTERS:
        return True
    at = Span(source, MAX_CHARACTERS, MAX_CHARACTERS)
    findings.error("E0106", at, "the text is longer than 128 KiB", "split it into several files")
    return False


def check_characters(source: Source, findings: Findings) -> None:
    """Report the first character of each comment, string and name that hides or turns text."""
    if not ACTING.search(source.text):
        return
    for part in _FREE.finditer(source.text):
        if found := ACTING.search(source.text, *part.span()):
            number = ord(found[0])
            message = f"U+{number:04X} changes how the text around it is shown"
            hint, fix = _without(found, part, source)
            findings.error("E0109", Span(source, *found.span()), message, hint, fix=fix)


def _without(
    found: re.Match[str], part: re.Match[str], source: Source
) -> tuple[Hint | str, Fix | None]:
    """What to do about the character `found` in the comment, string or name `part`."""
    number = ord(found[0])
    if part[0][0] == '"':
        return write(f"\\u{{{number:x}}}"), None
    if part[0][0] == "#" and found[0] in _ENDS_OF_LINES:
        said = f"end lines with a line feed (U+000A), not with U+{number:04X}"
        alone = re.compile(rf"{found[0]}(?!\n)")
        ends = alone.finditer(source.text, part.start(), part.end() + 1)
        lines = (Replacement(Span(source, *each.span()), "\n") for each in ends)
        return said, Fix("end the lines of this text with line feeds", tuple(lines))
    place = Span(source, *found.span())
    return "leave it out", Fix(f"remove U+{number:04X}", (Replacement(place, ""),))


def edition_is_known(source: Source, findings: Findings) -> bool:
    """Whether this package reads the file's edition. If not, nothing else in it is reported."""
    found = _EDITION.match(source.text)
    if found is None and source.text.lstrip().startswith(FENCE):
        return True  # the parser reports it
    if found is None:
        message = "the file does not state the edition of the language"
        findings.error(
            "E0103", Span(source, 0, 0), message, Hint("begin with `collage 1;`", "collage 1;\n\n")
        )
        return True
    if found[1] in (None, str(EDITION)):  # without a number, the parser reports it
        return True
    span = Span(source, found.start(1), found.end(1))
    message = f"edition {found[1][:20]} of the language is not known"
    hint: str = f"this version of collage reads edition {EDITION}"
    if re.fullmatch(rf"0*{EDITION}(?:\.0+)*", found[1]):
        hint = write(str(EDITION))
    findings.error("E0103", span, message, hint)
    return False
