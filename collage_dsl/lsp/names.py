"""What the names of a file stand for, where they are defined and where they are used."""

from bisect import bisect_right
from dataclasses import dataclass

from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class External:
    """
    The definition of `name` in the file or table at `path` (made by `import_path`). An empty name
    means all of it.
    """

    path: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Definition:
    """
    A name that a file defines: its sort, the span of the name and that of the whole definition.

    `inside` is the pattern, rule or test that the name is local to; empty for a name of the file.
    `of` is what an imported name stands for.
    """

    name: str
    sort: str
    span: Span
    whole: Span
    inside: str = ""
    of: External | None = None


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the language in a `group` ("operator", "setting"); `owners` are what has it."""

    group: str
    text: str
    owners: tuple[str, ...] = ()


What = Definition | External | Word


@dataclass(frozen=True, slots=True)
class Use:
    """A place where a name is written, and what the name stands for."""

    span: Span
    what: What


Scope = dict[str, Definition]


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one file; `uses` are in file order."""

    uses: tuple[Use, ...]
    definitions: Scope
    """The names of the file: patterns, classes, rules, predicates, imports."""
    targets: Scope
    scopes: tuple[tuple[Span, Scope], ...]
    """The local names of patterns, rules and tests, with the spans of these."""

    def at(self, offset: int) -> Use | None:
        """The use at `offset`, or the one that ends there."""
        first = bisect_right(self.uses, offset, key=lambda use: use.span.start)
        near = [use for use in self.uses[max(0, first - 8) : first] if offset <= use.span.end]
        inside = [use for use in near if offset < use.span.end]
        return min(inside or near, key=lambda use: use.span.end - use.span.start, default=None)

    def of(self, what: What) -> tuple[Use, ...]:
        """All uses of `what`."""
        return tuple(use for use in self.uses if use.what == what)

    def named(self, name: str) -> Definition | None:
        """The definition of `name` in the file."""
        return self.definitions.get(name) or self.targets.get(name)
