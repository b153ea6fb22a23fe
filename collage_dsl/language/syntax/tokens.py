"""Turn the tokens of parse trees into names, numbers, strings and spans."""

import re
from math import inf
from typing import Any

from lark import Token

from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.syntax import ast
from collage_dsl.source import Source, Span

MAX_DEPTH = 200
"""How deep syntax may be nested, because walking it is recursive."""

MAX_ITEMS = 200
"""How long a list may be, because its items are compared with each other."""

_ESCAPE = re.compile(r"\\u\{([0-9A-Fa-f]{1,6})\}|\\.")
_ESCAPES = {r"\n": "\n", r"\r": "\r", r"\t": "\t", r"\"": '"', r"\\": "\\"}

TOO_LARGE = 2**63 + 1
"""The first number that is too large: operators take numbers of 64 bits, from -2^63 on."""

_DIGITS = len(str(TOO_LARGE))

UNITS = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}
"""Units per second. These are exact as floats, unlike 1e-6."""

Child = Any
"""A `Tree`, a `Token`, or None for an absent part."""


class NestingError(Exception):
    """A part of a text is nested more deeply than allowed."""

    def __init__(self, span: Span) -> None:
        self.span = span


class Reader:
    """Reads the tokens of one source."""

    def __init__(self, source: Source, findings: Findings) -> None:
        self.source = source
        self.findings = findings

    def name(self, token: Child) -> ast.Name:
        return ast.Name(str(token), self.span_of(token))

    def string(self, token: Token) -> str:
        """The text between the quotes, with escapes replaced."""
        first = self.span_of(token).start + 1
        return _ESCAPE.sub(
            lambda found: self.escaped(found, first + found.start()), str(token)[1:-1]
        )

    def escaped(self, found: re.Match[str], start: int) -> str:
        written = found[0]
        if written in _ESCAPES:
            return _ESCAPES[written]
        if found[1] and _is_character(number := int(found[1], 16)):
            return chr(number)
        known = r"the escapes are `\"`, `\\`, `\n`, `\r`, `\t` and `\u{1b}`"
        span = Span(self.source, start, start + len(written))
        self.findings.error("E0104", span, f"unknown escape `{written}`", known)
        return written

    def number(self, token: Token, minus: Token | None = None) -> int | float:
        text = str(token)
        is_integer = text.isdigit()
        if is_integer and len(text) <= _DIGITS and int(text) < TOO_LARGE:
            value: int | float = int(text)
        elif is_integer or float(text) == inf:
            self.findings.error("E0107", self.span_of(token), "this number is too large")
            value = TOO_LARGE
        else:
            value = float(text)
        return value if minus is None else -value

    def integer(self, token: Token) -> int:
        if str(token).isdigit():
            return int(self.number(token))
        self.findings.error("E0101", self.span_of(token), "expected a whole number")
        return 1  # a value that fits every bound

    def seconds(self, token: Token) -> float:
        """The seconds of a duration: 0.0015 for `1.5ms`."""
        number = str(token).rstrip("nums")
        return float(number) / UNITS[str(token)[len(number) :]]

    def part(self, token: Token) -> float:
        """The part of 1 that a percentage is: 0.025 for `2.5%`."""
        return float(f"{str(token)[:-1]}e-2")

    # Spans.

    def span(self, tree: Child) -> Span:
        return Span(self.source, tree.start, tree.end)

    def span_of(self, token: Token) -> Span:
        return token_span(self.source, token)

    def check_depth(self, tree: Child, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise NestingError(self.span(tree))

    def too_deep(self, span: Span) -> None:
        message = f"this is nested more than {MAX_DEPTH} deep"
        self.findings.error("E0105", span, message, "give parts of it a name")

    def too_long(self, span: Span) -> None:
        message = f"this list has more than {MAX_ITEMS} items"
        said = "write several lists, joined with `or`, or in a `union`"
        self.findings.error("E0106", span, message, said)


def token_span(source: Source, token: Token) -> Span:
    assert token.start_pos is not None, "every token has a position"
    return Span(source, token.start_pos, token.start_pos + len(token))


def _is_character(number: int) -> bool:
    return number < 0x110000 and not 0xD800 <= number < 0xE000


def children(tree: Child) -> list[Child]:
    """The children of `tree`, which may be absent."""
    return [] if tree is None else list(tree.children)
