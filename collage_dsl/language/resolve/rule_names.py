"""The names that a rule can use, and what the rules of a file have used so far."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from collage_dsl.diagnostics import Note
from collage_dsl.language.messages.findings import Findings, listed
from collage_dsl.language.resolve.scope import PatternScope
from collage_dsl.language.syntax import ast
from collage_dsl.rules import FusionRule, OnlyVariants, Pattern
from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class CheckedRule:
    """A rule (None if it is wrong), its nesting depth, and the number of its parts."""

    rule: FusionRule | None
    depth: int
    size: int


@dataclass(slots=True)
class RuleNames:
    """The patterns and rules of a file by name, and what was found when they were used."""

    patterns: Mapping[str, Pattern | None]
    rules: Mapping[str, ast.Rule]
    broken: frozenset[str]
    findings: Findings
    values: PatternScope
    """The operators and predicates of the file."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Imported patterns that cannot be used, with the reason."""
    parametric: frozenset[str] = frozenset()
    """Rules with parameters of imported files, which cannot be used."""
    checked: dict[str, CheckedRule] = field(default_factory=dict)
    labels: dict[str, Span] = field(default_factory=dict)
    """Where the labels of composites are first written."""
    variants: dict[str, Span] = field(default_factory=dict)
    """Where the names of variants are first written."""
    lists: dict[OnlyVariants, Span] = field(default_factory=dict)
    """Where the first variant of each such rule is first written."""
    used: set[str] = field(default_factory=set)
    active: list[str] = field(default_factory=list)
    """The rules that are being checked, each used by the one before it."""

    def is_rule(self, name: str) -> bool:
        """Whether `name` is a rule that the file defines or imports."""
        return name in self.rules or name in self.checked

    def recursion(self, name: ast.Name) -> None:
        """Report that the rule `name` uses itself."""
        cycle = self.active[self.active.index(name.text) :]
        message = f"rule `{name.text}` uses itself"
        if len(cycle) > 1:
            message += f", through {listed(cycle[1:], 'and')}"
        note = Note("the rule", self.rules[name.text].name.span)
        hint = "name another rule, or remove it here"
        self.findings.error("E0210", name.span, message, hint, notes=(note,))


def refuse_parametric(name: ast.Name, findings: Findings) -> None:
    """Report the use of a rule with parameters that another file defines."""
    message = f"`{name.text}` has parameters, and such a rule cannot be imported"
    findings.error("E0803", name.span, message, "write the rule in this file too")
