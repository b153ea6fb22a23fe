"""Mistakes between the operands of a call, for which the table of operators is asked."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collage_dsl.graph.operators import Operator, operators
from collage_dsl.graph.types import long_dtype
from collage_dsl.language.messages.hints import Hint
from collage_dsl.language.syntax.mistakes import NAME, Advice, Place, shown

_CONST = "`const` is said once, of the parameter: `pattern f(x, w: const)`"

_MARK = re.compile(r'"[^"\n]*+"|[()\[\],;{}]')
_CALLED = re.compile(rf"(?:(?P<operator>{NAME})|\([^()]*\))\??\s*\Z")
_NAMED = re.compile(rf"(?P<name>{NAME})\s*[:=](?!=)\s*(?P<value>.+)", re.DOTALL)
_SIGN = re.compile(r"[:=](?!=)")
_IS_CONST = re.compile(r"const\b(?!\s*\()")
_TEXT = re.compile(r'"[^"\n]*+"(?=\s*\))')
_LIST = re.compile(r"\(\s*(?P<items>[^()\[\];{}]*[^()\[\];{}\s,])\s*,?\s*\)")
_ATTRIBUTES = re.compile(r"\s*\[")
_WORDS = {"True": "true", "False": "false", "None": "none"}


@dataclass(frozen=True, slots=True)
class _OpenCall:
    """
    A call that is not closed before a place. The text before its parenthesis begins at `start`,
    and the last of its `operands` goes on after the place.
    """

    called: str
    start: int
    operator: Operator | None
    operands: tuple[str, ...]


def meant_in_call(place: Place) -> Advice | None:
    """What to write instead of operands with names, and of a tuple that stands for a list."""
    call = None if place.is_expression else _open_call(place.before)
    if call is None:
        return None
    if _SIGN.match(place.after):
        return _without_names(call, place)
    if text := _TEXT.match(place.after):
        return _text_attribute(call, text[0], place)
    items = _LIST.match(place.after)
    if items and _is_list(call, items["items"]):
        new = f"[{items['items']}]"
        words = f"a list stands in brackets: write `{shown(new)}`"
        return Advice(Hint(words, new), 0, items.end())
    return None


def _without_names(call: _OpenCall, place: Place) -> Advice | None:
    found = _operands_in(place.after)
    if found is None:
        return None
    (first, *more), end = found
    written = (*call.operands[:-1], call.operands[-1] + first, *more)
    matched = [(text, _NAMED.fullmatch(text)) for each in written if (text := each.strip())]
    plain = [text for text, name in matched if name is None]
    named = {each["name"]: _value(each["value"]) for _, each in matched if each}
    if any(map(_IS_CONST.match, named.values())):
        return Advice(_CONST)
    operands, attributes = _told_apart(call.operator, plain, named)
    if not operands:
        return None
    new = f"{call.called}({', '.join(operands)})"
    if not attributes:
        return Advice(Hint(f"write `{shown(new)}`", new), len(place.before) - call.start, end)
    asked = ", ".join(f"{name} {_sign(place)} {value}" for name, value in attributes.items())
    new = f"{new} [{asked}]"
    words = f"attributes stand in brackets: `{shown(new)}`"
    if _ATTRIBUTES.match(place.after, end):
        return Advice(words)
    return Advice(Hint(words, new), len(place.before) - call.start, end)


def _told_apart(
    operator: Operator | None, plain: Sequence[str], named: Mapping[str, str]
) -> tuple[Sequence[str], Mapping[str, str]]:
    """The operands and the attributes among those in a call; no operands if that is not clear."""
    if not named:
        return (), {}
    names = (operator and operator.operands) or ()
    by_name = {name: named[name] for name in names if name in named}
    others = {name: value for name, value in named.items() if name not in names}
    if operator and not operator.attrs:
        plain, others = [*plain, *others.values()], {}
    rest = names[len(plain) :]
    if any(name not in rest for name in by_name):
        return (), {}
    count = max((rest.index(name) + 1 for name in by_name), default=0)
    return [*plain, *(by_name.get(name, "_") for name in rest[:count])], others


def _text_attribute(call: _OpenCall, text: str, place: Place) -> Advice | None:
    """What to write for a `text` after the operands, if the operator has an attribute for it."""
    operands = [each.strip() for each in call.operands[:-1]]
    if call.operator is None or len(operands) != len(call.operator.operands or ()):
        return None
    wanted = "dtype" if long_dtype(text.strip('"')) else "str"
    name = next((name for name, type_ in call.operator.attrs.items() if type_ == wanted), "")
    if not name:
        return None
    new = f"{call.called}({', '.join(operands)}) [{name} {_sign(place)} {text}]"
    return Advice(f"attributes stand in brackets: `{shown(new)}`")


def _sign(place: Place) -> str:
    """What stands between an attribute and its value."""
    return "=" if place.inside[-1] == "graph" else "=="


def _is_list(call: _OpenCall, items: str) -> bool:
    """Whether `items` in parentheses, the next operand of `call`, are meant as a list."""
    if call.operator is None:
        return False
    at = len(call.operands) - 1
    return call.operator.takes[at : at + 1] == ("list",) or not re.search(r"[A-Za-z_]", items)


def _open_call(before: str) -> _OpenCall | None:
    """The innermost call that is open at the end of `before`, if that is no other bracket."""
    brackets: list[list[int]] = []
    for mark in _MARK.finditer(before):
        match mark[0]:
            case "(" | "[":
                brackets.append([mark.end()])
            case ")" | "]":
                del brackets[-1:]
            case "," if brackets:
                brackets[-1].append(mark.end())
    if not brackets or before[brackets[-1][0] - 1] == "[":
        return None
    starts = brackets[-1]
    called = _CALLED.search(before, 0, starts[0] - 1)
    if called is None:
        return None
    ends = [*(start - 1 for start in starts[1:]), len(before)]
    operands = tuple(before[first:last] for first, last in zip(starts, ends, strict=True))
    operator = operators().get(called["operator"] or "")
    return _OpenCall(called[0].rstrip(), called.start(), operator, operands)


def _operands_in(after: str) -> tuple[list[str], int] | None:
    """The operands up to the `)` that closes their call, and the end of that; None without one."""
    depth = start = 0
    found: list[str] = []
    for mark in _MARK.finditer(after):
        match mark[0]:
            case "(" | "[":
                depth += 1
            case ")" | "]" if depth:
                depth -= 1
            case ")":
                return [*found, after[start : mark.start()]], mark.end()
            case "," if not depth:
                found.append(after[start : mark.start()])
                start = mark.end()
            case "]" | ";" | "{" | "}":
                return None
    return None


def _value(text: str) -> str:
    """The value of an attribute as it is written here: `[0, 1]` for `(0, 1)`."""
    items = _LIST.fullmatch(text)
    return f"[{items['items']}]" if items else _WORDS.get(text, text)
