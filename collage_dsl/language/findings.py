"""Collecting diagnostics while a text is read and checked."""

from collections.abc import Iterable
from functools import lru_cache

from collage_dsl.diagnostics import Diagnostic, Note, RuleError, Severity, in_file_order
from collage_dsl.source import Span


class Findings:
    """The diagnostics found so far."""

    def __init__(self) -> None:
        self._found: list[Diagnostic] = []
        self._said: set[tuple[str, str, int, int]] = set()
        self.errors = 0

    def error(
        self, code: str, span: Span, message: str, hint: str = "", notes: tuple[Note, ...] = ()
    ) -> None:
        self.errors += 1
        self._add(Diagnostic(code, message, span, hint, Severity.ERROR, notes))

    def warning(
        self, code: str, span: Span, message: str, hint: str = "", notes: tuple[Note, ...] = ()
    ) -> None:
        self._add(Diagnostic(code, message, span, hint, Severity.WARNING, notes))

    def _add(self, found: Diagnostic) -> None:
        key = (found.code, found.message, found.span.start, found.span.end)
        if key not in self._said:  # a rule with parameters is checked at each use
            self._said.add(key)
            self._found.append(found)

    def in_order(self) -> tuple[Diagnostic, ...]:
        return in_file_order(self._found)

    def raise_errors(self) -> None:
        """Raise all errors at once, if there are any."""
        if self.errors:
            raise RuleError(*(d for d in self._found if d.is_error))


def did_you_mean(written: str, known: Iterable[str]) -> str:
    """A hint that names what `written` looks like; empty where nothing does."""
    close = _closest(written[:_LONGEST_NAME], tuple(known))
    return f"did you mean `{close}`?" if close else ""


_LONGEST_NAME = 80


@lru_cache(maxsize=256)
def _closest(written: str, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches  # here, since most files need no hint

    by_lower = {name.lower(): name for name in known}
    close = get_close_matches(written.lower(), by_lower, n=1, cutoff=0.7)
    return by_lower[close[0]] if close else ""


def listed(words: Iterable[str], last: str = "or") -> str:
    """`a`, `b` or `c`."""
    quoted = [f"`{word}`" for word in words]
    if len(quoted) < 2:
        return "".join(quoted)
    return f"{', '.join(quoted[:-1])} {last} {quoted[-1]}"


def count(number: int, noun: str) -> str:
    """`1 operand`, `2 operands`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
