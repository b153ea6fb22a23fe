"""Read what a parameter excludes: `x: not (activation | const)`."""

from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.reasoning.contradictions import check_twice
from collage_dsl.language.resolve.scope import PatternScope
from collage_dsl.language.syntax import ast
from collage_dsl.rules.pattern import Excluded


def excluded_sources(
    written: ast.Excluded, scope: PatternScope, findings: Findings
) -> Excluded | None:
    """The operators, classes and constants named in `written`; None after reporting a mistake."""
    check_twice([(name.text, name.span) for name in written.names], findings)
    constants = [name for name in written.names if name.text == "const"]
    found: dict[str, None] = {}
    is_known = True
    for name in written.names:
        if scope.is_pattern(name.text):
            message = f"`{name.text}` is a pattern, and an operator is needed here"
            hint = "name the operator, or a class of operators, that gives its result"
            findings.error("E0209", name.span, message, hint)
            is_known = False
        elif name not in constants:
            operators = scope.operators(name)
            is_known = is_known and operators is not None
            found |= dict.fromkeys(operator.name for operator in operators or ())
    return Excluded(tuple(found), bool(constants)) if is_known else None
