"""Collect diagnostics while a text is read and checked."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice

from collage_dsl.diagnostics import Diagnostic, Fix, Note, RuleError, Severity, in_file_order
from collage_dsl.language.messages.hints import fix_of
from collage_dsl.source import Span

MAX_ERRORS = 100
"""A check stops after this many errors: nobody reads more, and one cause may explain them all."""

MAX_WARNINGS = 1000


class _TooManyError(Exception):
    """More errors were found than are reported."""


class Findings:
    """The diagnostics found so far in one text."""

    def __init__(self) -> None:
        self._found: list[Diagnostic] = []
        self._said: set[tuple[str, str, int, int]] = set()
        self._different = 0
        self.errors = 0

    @property
    def count(self) -> int:
        return len(self._found)

    def error(
        self,
        code: str,
        span: Span,
        message: str,
        hint: str = "",
        notes: tuple[Note, ...] = (),
        place: Span | None = None,
        fix: Fix | None = None,
    ) -> None:
        """
        Add an error. `place` is what the new text of `hint` replaces, if not `span`; `fix` is for
        a hint that is no text to write at one place.
        """
        self.errors += 1
        fix = fix or fix_of(hint, place or span)
        self._add(Diagnostic(code, message, span, hint, Severity.ERROR, notes, fix))

    def warning(
        self,
        code: str,
        span: Span,
        message: str,
        hint: str = "",
        notes: tuple[Note, ...] = (),
        place: Span | None = None,
    ) -> None:
        fix = fix_of(hint, place or span)
        self._add(Diagnostic(code, message, span, hint, Severity.WARNING, notes, fix))

    def add_all(self, found: Iterable[Diagnostic]) -> None:
        """Add what was found before."""
        for each in found:
            self.errors += each.is_error
            self._add(each)

    def _add(self, found: Diagnostic) -> None:
        key = (found.code, found.message, found.span.start, found.span.end)
        if key in self._said:  # a rule with parameters is checked at each use
            return
        self._said.add(key)
        self._different += found.severity is Severity.ERROR
        if self._different > MAX_ERRORS:
            message = f"there are more than {MAX_ERRORS} errors; the rest is not checked"
            hint = "correct the others first"
            self._found.append(Diagnostic("E0108", message, found.span, hint))
            raise _TooManyError
        self._found.append(found)

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Leave the `with` block when there are too many errors."""
        with suppress(_TooManyError):
            yield

    def advised(self, code: str, span: Span, hint: str) -> bool:
        """Whether something of this code at `span` was reported with the same hint."""
        return any((d.code, d.span, d.help) == (code, span, hint) for d in self._found)

    def in_order(self) -> tuple[Diagnostic, ...]:
        return in_file_order(self._found)

    def raise_errors(self) -> None:
        """Raise all errors at once, if there are any."""
        if self.errors:
            raise RuleError(*(d for d in self._found if d.is_error))


def without_too_many(found: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    """`found`, in order, without the warnings after the first thousand."""
    warnings = [at for at, diagnostic in enumerate(found) if not diagnostic.is_error]
    if len(warnings) <= MAX_WARNINGS:
        return found
    first = warnings[MAX_WARNINGS]
    message = f"there are more than {MAX_WARNINGS} warnings; those from here on are not shown"
    more = Diagnostic("W0109", message, found[first].span, "", Severity.WARNING)
    errors = (diagnostic for diagnostic in found[first:] if diagnostic.is_error)
    return (*found[:first], more, *errors)


def quoted(span: Span, otherwise: str = "this") -> str:
    """The text of `span` for a message, or `otherwise` if it is long."""
    text = " ".join(span.text.split())
    return f"`{text}`" if len(text) <= _LONGEST_QUOTE else otherwise


_LONGEST_QUOTE = 40


_MOST_LISTED = 4


def there_are(known: Iterable[str]) -> str:
    """A hint that lists the known words, if they are few."""
    words = tuple(islice(known, _MOST_LISTED + 1))
    if not words or len(words) > _MOST_LISTED:
        return ""
    return f"there {'is' if len(words) == 1 else 'are'} {listed(words, 'and')}"


def listed(words: Iterable[str], last: str = "or") -> str:
    """`a`, `b` or `c`."""
    quoted = [f"`{word}`" for word in words]
    if len(quoted) < 2:
        return "".join(quoted)
    return f"{', '.join(quoted[:-1])} {last} {quoted[-1]}"


def count(number: int, noun: str, ending: str = "s") -> str:
    """`1 operand`, `2 operands`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{ending}"
