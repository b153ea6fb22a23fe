"""Strings that an attribute never is: misspelt layouts, methods, modes."""

import re
from collections.abc import Iterator

from collage_dsl.graph.operators import Operator
from collage_dsl.language.findings import Findings, listed
from collage_dsl.rules.condition import (
    And,
    Attr,
    Compare,
    Constant,
    Expression,
    Not,
    Or,
    Value,
    Where,
    Within,
)
from collage_dsl.source import Span

_BLOCKED = re.compile(r"[A-Z]+([0-9]+[a-z])+")
"""`NCHW16c`: axes, and blocks of some of them."""


def check_values(where: Where, operators: tuple[Operator, ...], findings: Findings) -> None:
    """Report strings in `where` that an attribute of `operators` is compared with in vain."""
    if where.span is None:
        return
    for name, text in _compared(where.condition):
        known = [operator.values.get(name) for operator in operators]
        if all(values and not _is_value(name, text, values) for values in known):
            values = tuple(dict.fromkeys(v for each in known for v in each or ()))
            message = f'`{name}` of `{operators[0].name}` is never "{text}"'
            findings.error("E0321", _inside(where.span, text), message, _hint(name, text, values))


def _compared(expression: Expression) -> Iterator[tuple[str, str]]:
    """The attributes and the strings that they are compared with."""
    match expression:
        case Compare("==" | "!=", Attr(name), Constant(value)):
            yield from _strings(name, (value,))
        case Compare("==" | "!=", Constant(value), Attr(name)):
            yield from _strings(name, (value,))
        case Within(Attr(name), Constant(tuple() as values)):
            yield from _strings(name, values)
        case Not(condition):
            yield from _compared(condition)
        case And(left, right) | Or(left, right):
            yield from _compared(left)
            yield from _compared(right)


def _strings(name: str, values: tuple[Value, ...]) -> Iterator[tuple[str, str]]:
    return ((name, value) for value in values if isinstance(value, str))


def _is_value(name: str, text: str, known: tuple[str, ...]) -> bool:
    if text in known:
        return True
    return "layout" in name and (not text or any(_is_blocked(text, axes) for axes in known))


def _is_blocked(text: str, axes: str) -> bool:
    """Whether `text` has the axes and blocks of some of them."""
    if not _BLOCKED.fullmatch(text):
        return False
    outer = [letter for letter in text if letter.isupper()]
    inner = [letter.upper() for letter in text if letter.islower()]
    return sorted(outer) == sorted(axes) and set(inner) <= set(outer)


def _hint(name: str, text: str, known: tuple[str, ...]) -> str:
    by_case = {value.lower(): value for value in known}
    if text.lower() in by_case:
        return f'did you mean "{by_case[text.lower()]}"?'
    quoted = listed([f'"{value}"' for value in known])
    axes = known[0]
    blocked = f', or in blocks: `"{axes}16c"`' if "layout" in name and "C" in axes else ""
    return f"it is {quoted}{blocked}"


def _inside(span: Span, text: str) -> Span:
    """Where `text` is written in `span`, quotes and all."""
    at = span.text.find(f'"{text}"')
    return span if at < 0 else Span(span.source, span.start + at, span.start + at + len(text) + 2)
