"""Read what a parameter excludes, `not (activation | const)`, and the names of a path."""

from collections.abc import Sequence

from collage_dsl.graph import Kind
from collage_dsl.graph.operators import Operator
from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.reasoning.findings.forms_in_relax import check_listed
from collage_dsl.language.reasoning.findings.list_items import check_twice
from collage_dsl.language.resolve.scope import Member, PatternScope, distinct
from collage_dsl.language.syntax import ast
from collage_dsl.rules.pattern import Excluded


def excluded_sources(
    written: ast.Excluded, scope: PatternScope, findings: Findings
) -> Excluded | None:
    """The operators, classes and constants named in `written`; None after reporting a mistake."""
    check_twice([(name.text, name.span) for name in written.names], findings)
    names = [name for name in written.names if name.text != "const"]
    found = named_members(names, scope, findings)
    if found is None:
        return None
    ops, kinds = found
    return Excluded(ops, len(names) < len(written.names), kinds)


def named_members(
    names: Sequence[ast.Name], scope: PatternScope, findings: Findings
) -> tuple[tuple[str, ...], tuple[Kind, ...]] | None:
    """The operators and the kinds that `names` stand for; None after reporting a mistake."""
    found: list[tuple[Member, ...] | None] = []
    for name in names:
        if scope.is_pattern(name.text):
            message = f"`{name.text}` is a pattern, but an operator is needed here"
            hint = "name the operator, or a class of operators, that gives its result"
            findings.error("E0209", name.span, message, hint)
            found.append(None)
        else:
            found.append(scope.class_of(name))
    if None in found:
        return None
    check_listed(names, findings)
    members = distinct(each or () for each in found)
    ops = tuple(each.name for each in members if isinstance(each, Operator))
    return ops, tuple(each for each in members if isinstance(each, Kind))
