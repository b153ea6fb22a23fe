"""Reading `.collage` files: `load` gives the fusion specs of one, `check` what is wrong."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path

from collage_dsl.diagnostics import Diagnostic, Note
from collage_dsl.language import syntax
from collage_dsl.language.conditions import reserved
from collage_dsl.language.findings import Findings
from collage_dsl.language.parser import MAX_CHARACTERS, parse_file
from collage_dsl.language.patterns import check_pattern
from collage_dsl.language.rules import RuleScope
from collage_dsl.language.targets import check_target
from collage_dsl.rules import FusionSpec, Pattern
from collage_dsl.source import Source, Span

_MOST_BYTES = 4 * MAX_CHARACTERS + 4
"""More than any text of the characters that a file may have."""


class UnreadableError(Exception):
    """A file cannot be read at all: it is missing, a folder, or not text in UTF-8."""


def load(
    path: str | Path | None = None, *, text: str | None = None, name: str | None = None
) -> Mapping[str, FusionSpec]:
    """
    The fusion specs of the file at `path`, or in `text`, by the names of their targets and
    in file order. `name` is what messages call the text.

    Raises RuleError with every error there is, UnreadableError where there is no text.
    """
    if (path is None) == (text is None):
        raise TypeError("load takes either a path or a text")
    source = Source(name or "<text>", text) if text is not None else read(path or "", name)
    findings = Findings()
    specs = _specs(source, findings)
    findings.raise_errors()
    return specs


def check(source: Source) -> tuple[Diagnostic, ...]:
    """Every error and warning about `source`, in file order."""
    findings = Findings()
    _specs(source, findings)
    return findings.in_order()


def read(path: str | Path, name: str | None = None) -> Source:
    """The text of the file at `path`. Raises UnreadableError."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(_MOST_BYTES)
        errors = "strict" if len(content) < _MOST_BYTES else "replace"
        return Source(name or str(path), content.decode("utf-8-sig", errors))
    except UnicodeDecodeError as problem:
        why = f"it is not UTF-8 (byte {problem.start})"
    except OSError as problem:
        why = (problem.strerror or type(problem).__name__).lower()
    except ValueError:
        why = "its name has a null character"
    raise UnreadableError(f"cannot read {path}: {why}")


def _specs(source: Source, findings: Findings) -> dict[str, FusionSpec]:
    file = parse_file(source, findings)
    return _FileChecker(file, findings).run()


class _FileChecker:
    def __init__(self, file: syntax.File, findings: Findings) -> None:
        self.file = file
        self.findings = findings
        self.broken = frozenset(broken.name for broken in file.broken)
        self.broken_inside = sorted(file.broken, key=_start)

    def run(self) -> dict[str, FusionSpec]:
        patterns = [item for item in self.file.items if isinstance(item, syntax.Pattern)]
        rules = [item for item in self.file.items if isinstance(item, syntax.Rule)]
        targets = [item for item in self.file.items if isinstance(item, syntax.Target)]
        self.check_names([i for i in self.file.items if not isinstance(i, syntax.Target)])
        self.check_names(targets)
        checked = self.patterns(patterns)
        written = {rule.name.text: rule for rule in reversed(rules)}
        scope = RuleScope(checked, written, self.broken, self.findings)
        specs = [(t, check_target(t, self.is_whole(t.span), scope, self.findings)) for t in targets]
        used_by_targets = set(scope.used)
        for rule in written.values():
            if rule.name.text not in scope.checked:
                scope.named(rule.name, 0)
        if targets:
            self.check_use([*patterns, *rules], used_by_targets)
        return {target.name.text: spec for target, spec in specs if spec is not None}

    def check_names(self, items: Sequence[syntax.Item]) -> None:
        first: dict[str, Span] = {}
        for item in items:
            name = item.name
            if not isinstance(item, syntax.Target) and (why := reserved(name.text)):
                self.findings.error("E0208", name.span, why)
            if name.text in first:
                note = Note("the first definition", first[name.text])
                message = f"`{name.text}` is defined twice"
                self.findings.error("E0202", name.span, message, notes=(note,))
            first.setdefault(name.text, name.span)

    def patterns(self, written: list[syntax.Pattern]) -> dict[str, Pattern | None]:
        names = frozenset(pattern.name.text for pattern in written)
        checked: dict[str, Pattern | None] = {}
        for pattern in written:
            broken = frozenset(broken.name for broken in self.inside(pattern.span))
            found = check_pattern(pattern, broken, names, self.findings)
            checked.setdefault(pattern.name.text, found)
        return checked

    def is_whole(self, span: Span) -> bool:
        return not self.inside(span)

    def inside(self, span: Span) -> list[syntax.Broken]:
        """The statements inside `span` that have syntax errors."""
        first = bisect_left(self.broken_inside, span.start, key=_start)
        return self.broken_inside[first : bisect_right(self.broken_inside, span.end, key=_start)]

    def check_use(self, items: list[syntax.Pattern | syntax.Rule], used: set[str]) -> None:
        if self.file.broken or self.findings.errors:
            return
        for item in items:
            if item.name.text not in used:
                what = "pattern" if isinstance(item, syntax.Pattern) else "rule"
                message = f"no target uses {what} `{item.name.text}`"
                self.findings.warning("W0405", item.name.span, message)


def _start(broken: syntax.Broken) -> int:
    return broken.span.start
