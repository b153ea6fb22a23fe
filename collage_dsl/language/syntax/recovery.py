"""Find where reading can go on after a syntax error, and what the broken statement would define."""

import re
from collections.abc import Iterator

from collage_dsl.language.syntax.words import ITEM_KEYWORDS

_ITEM = "|".join(ITEM_KEYWORDS)
_MARK = re.compile(
    rf"""\#[^\n]* | "(?:[^"\\\n]++|\\[^\n])*+" | ["{{}};] | ^(?:{_ITEM})(?![A-Za-z0-9_])""",
    re.MULTILINE | re.VERBOSE,
)
_MARK_AFTER_QUOTE = re.compile(r"\#[^\n]* | [{};]", re.VERBOSE)
_BRACES = re.compile(r"\}(?:\s*\})*")
_GOES_ON = re.compile(r"\s*(?:[;,)\]]|(?:and|or|else)\b)")
"""What follows braces in the middle of a statement."""

_NAME = r"[A-Za-z_][A-Za-z0-9_.]*"
_IN_FILE = re.compile(rf"(?:extern\s+predicate|\w+)\s+({_NAME})|({_NAME})")
_NO_BINDING = re.compile(r"(?:where|yield|return|anchor|taps|expect|model)\b(?!\s*=)")
_BINDING = re.compile(rf"(?:{_NAME}\s+)?({_NAME})\s*(?:=|:|<-|[-+*/]=)|({_NAME})\s+{_NAME}\s*\(")
_LET = re.compile(r"let\s+\w+\s*(?::[^=;{}]*)?=(?!\s*one_of\b)")


def next_statement(text: str, start: int, *, in_braces: bool, in_file: bool) -> int:
    """
    The position to go on at: after the next `;` or the next balanced block, or at the brace
    that closes the block around `start`, or at an item that begins a line, whichever is first.
    """
    depth = 0
    for found in _marks(text, start):
        match found[0]:
            case "{":
                depth += 1
            case "}" if depth == 0:
                if in_braces:
                    return found.start()
                several = _BRACES.match(text, found.start())
                return several.end() if several else found.end()
            case "}":
                depth -= 1
                if depth == 0 and not _GOES_ON.match(text, found.end()):
                    return found.end()
            case ";" if depth == 0:
                return found.end()
            case word if word in ITEM_KEYWORDS and in_file:
                return found.start()
    return len(text)


def are_balanced(text: str, start: int) -> bool:
    """Whether each brace after `start` has its partner there."""
    depth = 0
    for found in _marks(text, start):
        depth += (found[0] == "{") - (found[0] == "}")
        if depth < 0:
            return False
    return depth == 0


def _marks(text: str, start: int) -> Iterator[re.Match[str]]:
    """
    What reading may resume at, and what hides such marks. After a quotation mark that is not
    closed, no string begins on that line, so none is searched for.
    """
    while found := _MARK.search(text, start):
        start = found.end()
        if found[0] != '"':
            yield found
            continue
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield from _MARK_AFTER_QUOTE.finditer(text, start, end)
        start = end


def defined_name(text: str, start: int, *, in_braces: bool) -> str:
    """The name that the broken statement at `start` would have defined; empty if none is clear."""
    if not in_braces:
        words = _IN_FILE.match(text, start)
    else:
        words = _BINDING.match(text, start)
        if other := _NO_BINDING.match(text, start):
            return other[0]
    return "" if words is None else words[1] or words[2]


def is_binding_with_let(text: str, start: int) -> bool:
    """Whether a binding, which has no keyword, begins with `let` at `start`."""
    return _LET.match(text, start) is not None
