"""Find values that an attribute never has: misspelt modes, wrong list lengths, `none`."""

import json
import re
from collections.abc import Iterator

from collage_dsl.graph import Attribute
from collage_dsl.graph.operators import Operator
from collage_dsl.graph.types import short_dtype
from collage_dsl.language.messages.findings import Findings, count, listed
from collage_dsl.language.messages.hints import Hint, write
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

_NEAR = 1000
"""Only this many characters of a condition are searched for a value."""

_BLOCKED = re.compile(r"[A-Z]+([0-9]+[a-z])+")
"""A blocked layout such as `NCHW16c`: the axes, then blocks of some of them."""


PER_AXIS = frozenset({"strides", "padding", "dilation", "output_padding", "pool_size"})
"""Attributes stored with as many numbers as their default has, except in gradients."""

_READ_PER_AXIS = frozenset({"output_size", "pooled_size"})
"""Attributes of which TVM reads a number for each axis of an image. It may store more."""


def check_values(where: Where, operators: tuple[Operator, ...], findings: Findings) -> None:
    """Report values in `where` that the compared attribute of `operators` never has."""
    if where.span is None:
        return
    for name, value in _compared(where.condition):
        match value:
            case str():
                check_string(name, value, operators, where.span, findings)
            case tuple():
                _check_length(name, value, operators, where.span, findings)
            case None:
                _check_none(name, operators, where.span, findings)


def check_string(
    name: str, text: str, operators: tuple[Operator, ...], span: Span, findings: Findings
) -> None:
    """Report that the attribute `name` of `operators`, which is written in `span`, is no `text`."""
    known = [operator.values.get(name) for operator in operators]
    if all(values and not _is_value(name, text, values) for values in known):
        values = tuple(dict.fromkeys(v for each in known for v in each or ()))
        message = f'`{name}` of `{operators[0].name}` is never "{text}"'
        at = _written(span, name, re.escape(f'"{text}"'))
        may_be_none = any(name in operator.may_be_none for operator in operators)
        findings.error("E0321", at, message, _hint(name, text, values, may_be_none=may_be_none))


def _check_length(
    name: str,
    value: tuple[Value, ...],
    operators: tuple[Operator, ...],
    span: Span,
    findings: Findings,
) -> None:
    stored = [stored_length(operator, name) for operator in operators]
    if stored[0] is not None and all(length not in (None, len(value)) for length in stored):
        message = f"`{name}` of `{operators[0].name}` always has {count(stored[0], 'number')}"
        items = r"\s*,\s*".join(re.escape(str(item)) for item in value)
        at = _written(span, name, rf"\[\s*{items}\s*\]")
        hint = _repeated(value, stored[0], name)
        findings.error("E0205", at, f"{message}, not {len(value)}", hint)


_ENDS = {
    2: "left, right",
    4: "top, left, bottom, right",
    6: "front, top, left, back, bottom, right",
}
"""The order of a stored padding, by its length."""


def _repeated(value: tuple[Value, ...], length: int, name: str) -> str:
    """A hint with the list that TVM stores for a shorter one, and the order of a padding."""
    order = _ENDS.get(length, "") if name == "padding" else ""
    shortest = (1, length // 2) if order else (1,)
    if not order and len(value) > length and len(set(value)) == 1:
        return f"write `[{', '.join(map(str, value[:length]))}]`"
    if len(value) not in shortest:
        return f"the numbers are {order}" if order else ""
    full = ", ".join(map(str, value * (length // len(value))))
    return write(f"[{full}]", f": {order}" if order else "")


def _check_none(name: str, operators: tuple[Operator, ...], span: Span, findings: Findings) -> None:
    if not any(name in operator.may_be_none for operator in operators):
        first = operators[0]
        message = f"`{name}` of `{first.name}` always has a value"
        usual = first.defaults.get(name)
        hint = "" if usual is None else f"its default is `{_text(usual)}`"
        findings.error("E0321", _written(span, name, r"\bnone\b"), message, hint)


def stored_length(operator: Operator, name: str) -> int | None:
    """How many numbers TVM stores for the attribute `name`; None if that varies."""
    if operator.name.startswith("grad."):
        return None  # gradients store the list as given
    default = operator.defaults.get(name)
    return len(default) if name in PER_AXIS and isinstance(default, tuple) else None


def read_length(operator: Operator, name: str) -> int | None:
    """
    How many numbers TVM reads of the attribute `name`, if it has a value; None if that varies. At
    least so many are stored.
    """
    layout = operator.defaults.get("layout")
    if name in _READ_PER_AXIS and isinstance(layout, str):
        return sum(letter in "DHW" for letter in layout)
    return stored_length(operator, name)


def _compared(expression: Expression) -> Iterator[tuple[str, Value]]:
    """Each attribute with each value that it is compared with."""
    match expression:
        case Compare("==" | "!=", Attr(name), Constant(value)):
            yield name, value
        case Compare("==" | "!=", Constant(value), Attr(name)):
            yield name, value
        case Within(Attr(name), Constant(tuple() as values)):
            yield from ((name, value) for value in values)
        case Not(condition):
            yield from _compared(condition)
        case And(left, right) | Or(left, right):
            yield from _compared(left)
            yield from _compared(right)


def _is_value(name: str, text: str, known: tuple[str, ...]) -> bool:
    if text in known:
        return True
    return "layout" in name and (not text or any(_is_blocked(text, axes) for axes in known))


def _is_blocked(text: str, axes: str) -> bool:
    """Whether `text` is a blocked layout of exactly the axes `axes`."""
    if not _BLOCKED.fullmatch(text):
        return False
    outer = [letter for letter in text if letter.isupper()]
    inner = [letter.upper() for letter in text if letter.islower()]
    return sorted(outer) == sorted(axes) and set(inner) <= set(outer)


def _text(value: Attribute) -> str:
    """The default of an attribute as a condition would have it."""
    return json.dumps(short_dtype(value) if isinstance(value, str) else value)


def _hint(name: str, text: str, known: tuple[str, ...], *, may_be_none: bool) -> str:
    by_case = {value.lower(): value for value in known}
    if text.lower() in by_case:
        meant = f'"{by_case[text.lower()]}"'
        return Hint(f"did you mean {meant}?", meant)
    quoted = listed([*(f'"{value}"' for value in known), *(["none"] if may_be_none else [])])
    axes = known[0]
    blocked = f', or in blocks: `"{axes}16c"`' if "layout" in name and "C" in axes else ""
    return f"write {quoted}{blocked}"


def _written(span: Span, name: str, value: str) -> Span:
    """
    The part of `span` that matches `value`, next to the attribute `name`.

    The whole of `span` if the comparison is written differently, or is too far from the start.
    """
    text = span.text[:_NEAR]
    before, after = rf"({value})\s*[!=]=\s*{name}\b", rf"\b{name}\b.*?({value})"
    found = re.search(before, text) or re.search(after, text, re.DOTALL)
    if found is None:
        return span
    return Span(span.source, span.start + found.start(1), span.start + found.end(1))
