"""Read what a parameter excludes: `x: not (activation | const)`."""

from collage_dsl.graph import Kind
from collage_dsl.graph.operators import Operator
from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.reasoning.contradictions import check_twice
from collage_dsl.language.resolve.scope import Member, PatternScope, distinct
from collage_dsl.language.syntax import ast
from collage_dsl.rules.pattern import Excluded


def excluded_sources(
    written: ast.Excluded, scope: PatternScope, findings: Findings
) -> Excluded | None:
    """The operators, classes and constants named in `written`; None after reporting a mistake."""
    check_twice([(name.text, name.span) for name in written.names], findings)
    constants = [name for name in written.names if name.text == "const"]
    found: list[tuple[Member, ...]] = []
    is_known = True
    for name in written.names:
        if scope.is_pattern(name.text):
            message = f"`{name.text}` is a pattern, and an operator is needed here"
            hint = "name the operator, or a class of operators, that gives its result"
            findings.error("E0209", name.span, message, hint)
            is_known = False
        elif name not in constants:
            members = scope.class_of(name)
            is_known = is_known and members is not None
            found.append(members or ())
    if not is_known:
        return None
    sources = distinct(found)
    ops = tuple(each.name for each in sources if isinstance(each, Operator))
    kinds = tuple(each for each in sources if isinstance(each, Kind))
    return Excluded(ops, bool(constants), kinds)
