"""Check declarations of predicates, and find the predicates in patterns and conditions."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.reasoning.patterns.pattern_shape import calls
from collage_dsl.language.resolve.parameter_names import check_parameter_names
from collage_dsl.language.syntax import ast
from collage_dsl.rules import condition as conditions
from collage_dsl.rules.condition import Expression
from collage_dsl.rules.pattern import Pattern
from collage_dsl.rules.predicate import Predicate

_WORD = r"[A-Za-z_][A-Za-z0-9_]*"
_FUNCTION = re.compile(rf"(?!(?:pattern_table|backend):){_WORD}(\.{_WORD})*:{_WORD}(\.{_WORD})*")
_IN_A_TABLE = re.compile(
    rf"pattern_table:({_WORD}(\.{_WORD})*:)?[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)+", re.ASCII
)


def can_come_from(source: str) -> bool:
    """Whether a file can say that the code of a predicate is there."""
    return bool(_FUNCTION.fullmatch(source) or _IN_A_TABLE.fullmatch(source))


def check_predicate(written: ast.Predicate, findings: Findings) -> Predicate | None:
    """The predicate that `written` declares; None after reporting what is wrong in it."""
    errors = findings.errors
    if not can_come_from(written.source):
        message = f"predicate `{written.name.text}` must come from a function in a module"
        hint = 'write "package.module:function", or "pattern_table:NAME.PATTERN"'
        module, dot, function = written.source.rpartition(".")
        if dot and can_come_from(f"{module}:{function}"):
            hint = f'write "{module}:{function}"'
        findings.error("E0410", written.source_span, message, hint)
    check_parameter_names(written.parameters, findings)
    if findings.errors > errors:
        return None
    names = tuple(parameter.text for parameter in written.parameters)
    return Predicate(written.name.text, names, written.source)


def predicates_of(pattern: Pattern) -> Iterator[Predicate]:
    """The predicates in the conditions of `pattern`, without those of the patterns it calls."""
    for binding in pattern.bindings:
        for call in calls(binding.value):
            for where in call.attributes:
                yield from asked(where.condition)
    for where in pattern.conditions:
        yield from asked(where.condition)


def asked(expression: Expression) -> Iterator[Predicate]:
    """The predicates in `expression`, from left to right."""
    for part in conditions.every_part(expression):
        if isinstance(part, conditions.Holds):
            yield part.predicate


def with_predicates(expression: Expression, called: Callable[[Predicate], Predicate]) -> Expression:
    """`expression` with each predicate replaced by `called(predicate)`."""
    match expression:
        case conditions.Holds(predicate):
            return replace(expression, predicate=called(predicate))
        case _:
            return conditions.rebuilt(expression, partial(with_predicates, called=called))
