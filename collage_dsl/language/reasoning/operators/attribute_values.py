"""Find values that an attribute never has: misspelt modes, wrong list lengths, `none`."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain

from collage_dsl.graph import Attribute
from collage_dsl.graph.operators import Operator
from collage_dsl.graph.types import short_dtype
from collage_dsl.language.messages.findings import Findings, count, listed
from collage_dsl.language.messages.hints import Hint, write
from collage_dsl.rules.condition import (
    And,
    Attr,
    AttrOf,
    Compare,
    Constant,
    Expression,
    Not,
    Or,
    Value,
    Where,
    Within,
    parts,
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


Owners = Callable[[Attr | AttrOf], tuple[Operator, ...]]
"""The operators of which a call has an attribute; empty if they are not known."""


def check_values(where: Where, owners: Owners, findings: Findings) -> None:
    """Report values in `where` that the compared attribute never has."""
    if where.span is None:
        return
    joined = tuple(_joined(where.condition))
    for part in joined:
        match part:
            case Compare("==" | "!=", Attr() | AttrOf() as one, Attr() | AttrOf() as other):
                _check_pair((one, owners(one)), (other, owners(other)), where.span, findings)
    for attribute, value in chain.from_iterable(map(_compared, joined)):
        operators = owners(attribute)
        match value:
            case _ if not operators:
                continue
            case str():
                check_string(attribute, value, operators, where.span, findings)
            case tuple():
                _check_length(attribute, value, operators, where.span, findings)
            case None:
                _check_none(attribute, operators, where.span, findings)


_Owned = tuple[Attr | AttrOf, tuple[Operator, ...]]
"""An attribute, and the operators of which a call has it."""


def _check_pair(one: _Owned, other: _Owned, span: Span, findings: Findings) -> None:
    """Report two attributes that are compared and never equal: of other lengths or layouts."""
    names = [f"`{attribute.name}` of `{ops[0].name}`" for attribute, ops in (one, other) if ops]
    if len(names) < 2 or all(_may_be_none(attribute, ops) for attribute, ops in (one, other)):
        return
    (length, *lengths), (wanted, *others) = _stored(*one), _stored(*other)
    if None not in (length, wanted) and {length, *lengths}.isdisjoint((wanted, *others, None)):
        message = f"{names[0]} has {count(length or 0, 'number')}, and {names[1]} has {wanted}"
        first, second = (_text_of(attribute) for attribute, _ in (one, other))
        hint = f"compare single numbers, such as `{first}[0]` and `{second}[0]`"
        findings.error("E0205", span, message, hint)
    elif not _have_common_values(one, other):
        message = f"{names[0]} never equals {names[1]}"
        meant = (replace(other[0], name=name) for name in other[1][0].values)
        fitting = [m for m in meant if m != one[0] and _have_common_values(one, (m, other[1]))]
        hint = f"did you mean `{_text_of(fitting[0])}`?" if fitting else ""
        findings.error("E0321", span, message, hint)


def _stored(attribute: Attr | AttrOf, operators: tuple[Operator, ...]) -> list[int | None]:
    return [stored_length(operator, attribute.name) for operator in operators]


def _may_be_none(attribute: Attr | AttrOf, operators: tuple[Operator, ...]) -> bool:
    return any(attribute.name in operator.may_be_none for operator in operators)


def _have_common_values(one: _Owned, other: _Owned) -> bool:
    """Whether two attributes may have the same value, as far as their values are known."""
    first, second = (
        [operator.values.get(attribute.name) for operator in ops] for attribute, ops in (one, other)
    )
    if not all((*first, *second)) or {one[0].name, other[0].name} == {"out_layout"}:
        return True
    texts = [value for each in first for value in each or ()]
    wanted = [value for each in second for value in each or ()]
    if "layout" in one[0].name:  # blocked ones have the same letters
        texts, wanted = (["".join(sorted(text)) for text in each] for each in (texts, wanted))
    return not set(texts).isdisjoint(wanted)


def check_string(
    attribute: Attr | AttrOf,
    text: str,
    operators: tuple[Operator, ...],
    span: Span,
    findings: Findings,
) -> None:
    """Report that an attribute of `operators`, which is written in `span`, is no `text`."""
    name = attribute.name
    known = [operator.values.get(name) for operator in operators]
    if all(values and not _is_value(name, text, values) for values in known):
        values = tuple(dict.fromkeys(v for each in known for v in each or ()))
        message = f'`{name}` of `{operators[0].name}` is never "{text}"'
        at = _written(span, attribute, re.escape(f'"{text}"'))
        hint = _hint(name, text, values, may_be_none=_may_be_none(attribute, operators))
        findings.error("E0321", at, message, hint)


def _check_length(
    attribute: Attr | AttrOf,
    value: tuple[Value, ...],
    operators: tuple[Operator, ...],
    span: Span,
    findings: Findings,
) -> None:
    name = attribute.name
    stored = [stored_length(operator, name) for operator in operators]
    if stored[0] is not None and all(length not in (None, len(value)) for length in stored):
        message = f"`{name}` of `{operators[0].name}` always has {count(stored[0], 'number')}"
        items = r"\s*,\s*".join(re.escape(str(item)) for item in value)
        at = _written(span, attribute, rf"\[\s*{items}\s*\]")
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


def _check_none(
    attribute: Attr | AttrOf, operators: tuple[Operator, ...], span: Span, findings: Findings
) -> None:
    name = attribute.name
    if not _may_be_none(attribute, operators):
        first = operators[0]
        message = f"`{name}` of `{first.name}` always has a value"
        usual = first.defaults.get(name)
        hint = "" if usual is None else f"its default is `{_text(usual)}`"
        findings.error("E0321", _written(span, attribute, r"\bnone\b"), message, hint)


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


def _joined(condition: Expression) -> Iterator[Expression]:
    """The parts that `not`, `and` and `or` make `condition` of."""
    if not isinstance(condition, Not | And | Or):
        yield condition
        return
    for part in parts(condition):
        yield from _joined(part)


def _compared(expression: Expression) -> Iterator[tuple[Attr | AttrOf, Value]]:
    """Each attribute with each value that it is compared with."""
    match expression:
        case Compare("==" | "!=", Attr() | AttrOf() as attribute, Constant(value)):
            yield attribute, value
        case Compare("==" | "!=", Constant(value), Attr() | AttrOf() as attribute):
            yield attribute, value
        case Within(Attr() | AttrOf() as attribute, Constant(tuple() as values)):
            yield from ((attribute, value) for value in values)


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


def _text_of(attribute: Attr | AttrOf) -> str:
    """An attribute as it is written: `strides`, `k.strides`."""
    return f"{attribute.of}.{attribute.name}" if isinstance(attribute, AttrOf) else attribute.name


def _written(span: Span, attribute: Attr | AttrOf, value: str) -> Span:
    """
    The part of `span` that matches `value`, next to the attribute.

    The whole of `span` if the comparison is written differently, or is too far from the start.
    """
    text = span.text[:_NEAR]
    name = re.escape(_text_of(attribute))
    before, after = rf"({value})\s*[!=]=\s*{name}\b", rf"(?<![\w.]){name}\b.*?({value})"
    found = re.search(before, text) or re.search(after, text, re.DOTALL)
    if found is None:
        return span
    return Span(span.source, span.start + found.start(1), span.start + found.end(1))
