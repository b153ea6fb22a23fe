"""
Apply comments that ignore warnings: `# collage: ignore[W0405] kept for the next release`.

Such a comment is at the end of the line with the warning, or above that line.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from collage_dsl.diagnostics import Diagnostic, Severity, in_file_order
from collage_dsl.language.messages.codes import CODES
from collage_dsl.language.messages.findings import listed
from collage_dsl.language.messages.hints import did_you_mean, fix_of
from collage_dsl.source import Source, Span

_MOST_SHOWN = 3
_ABOUT_IGNORING = frozenset({"W0901", "W0902"})
_SAYS_SO = re.compile(r"#\s*collage:\s*ignore\b(?P<codes>\s*\[[^\]]*\])?(?P<reason>.*)")


@dataclass(frozen=True, slots=True)
class _Ignore:
    """One code that the comment at `span` ignores on the line `about`."""

    code: str
    about: int
    span: Span


def without_ignored(source: Source, found: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    """
    `found` without the warnings that comments in `source` ignore, and with diagnostics about
    those comments. Errors cannot be ignored, because a file with errors cannot be used.
    """
    if "ignore" not in source.text:
        return tuple(found)
    ignores: list[_Ignore] = []
    wrong: list[Diagnostic] = []
    for span, about in _comments(source):
        _read(span, about, ignores, wrong)
    matched = {(ignore.code, ignore.about) for ignore in ignores}
    left = [d for d in found if d.is_error or _key(d) not in matched]
    if not any(d.is_error for d in found):  # with errors, some warnings may not have been found
        ignored = set(map(_key, found))
        wrong += [_unused(i) for i in ignores if (i.code, i.about) not in ignored]
    return in_file_order([*left, *wrong])


def _key(diagnostic: Diagnostic) -> tuple[str, int]:
    span = diagnostic.span
    return diagnostic.code, span.source.position(span.start)[0]


def _comments(source: Source) -> Iterator[tuple[Span, int]]:
    """The comments that ignore something, each with the line that they apply to."""
    from collage_dsl.language.syntax.formatter_tree import comments

    last = source.position(len(source.text))[0]
    run = range(0)  # the lines of comments that were last walked over
    for start, end in comments(source.text):
        if not _SAYS_SO.match(source.text, start, end):
            continue
        line, column = source.position(start)
        if not source.line(line)[: column - 1].strip():
            if line not in run:
                run = range(line, _after_comments(source, line + 1, last))
            line = run.stop
        yield Span(source, start, end), line


def _after_comments(source: Source, line: int, last: int) -> int:
    """The first line from `line` on that is not a comment, or `last`."""
    while line < last and source.line(line).lstrip().startswith("#"):
        line += 1
    return line


def _read(span: Span, about: int, ignores: list[_Ignore], wrong: list[Diagnostic]) -> None:
    said = _SAYS_SO.match(span.text)
    assert said is not None
    codes = list(re.finditer(r"[^\s,\[\]]+", said["codes"] or ""))
    if not codes:
        wrong.append(_wrong(span, "this comment does not say what to ignore", _EXAMPLE))
    elif not said["reason"].strip():
        wrong.append(_wrong(span, "this comment gives no reason", _EXAMPLE))
    else:
        start = span.start + said.start("codes")
        for code in codes:
            at = Span(span.source, start + code.start(), start + code.end())
            _read_code(at, about, ignores, wrong)


_EXAMPLE = "write `# collage: ignore[W0405] the reason`"


def _read_code(at: Span, about: int, ignores: list[_Ignore], wrong: list[Diagnostic]) -> None:
    code = at.text
    if code not in CODES:
        begun = [each for each in CODES if each.startswith(code)] if len(code) > 2 else []
        hint: str = did_you_mean(code, CODES)
        if begun:
            hint = f"write a whole code, such as {listed(begun[:_MOST_SHOWN])}"
        wrong.append(_wrong(at, f"there is no code `{code}`", hint))
    elif not code.startswith("W") or code in _ABOUT_IGNORING:
        wrong.append(_wrong(at, f"`{code}` cannot be ignored"))
    else:
        ignores.append(_Ignore(code, about, at))


def _wrong(span: Span, message: str, hint: str = "") -> Diagnostic:
    return Diagnostic("W0901", message, span, hint, Severity.WARNING, fix=fix_of(hint, span))


def _unused(ignore: _Ignore) -> Diagnostic:
    message = f"there is no {ignore.code} here to ignore"
    return Diagnostic("W0902", message, ignore.span, "remove the comment", Severity.WARNING)
