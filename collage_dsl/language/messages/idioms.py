"""How conditions say what other languages have functions for."""

import re
from typing import cast

from collage_dsl.language.messages.hints import Hint, write
from collage_dsl.rules.condition import OPPOSITE, Comparison

_POWERS = ("pow", "power", "square", "sqr")
_QUOTIENTS = ("floor", "floordiv", "floor_divide", "int", "trunc", "div")
_REMAINDERS = ("mod", "fmod", "floor_mod", "remainder")
_SOME = ("any", "exists", "some")

_COMPARED = re.compile(r"([^=!<>~]*[^=!<>~\s])\s*(==|!=|<=|>=|<|>)\s*([^=!<>~]*)")
_JOINED = re.compile(r"\b(?:and|or|not|in)\b")


def idiom(function: str, argument: str) -> str:
    """
    What to write in place of a call of `function`, as the end of a hint; empty if there is
    nothing. `argument` is the text of its first argument.
    """
    of = argument or "d"
    match function:
        case "sqrt":
            return f"square both sides: `value(c) * value(c) ~= {of}`"
        case "rsqrt":
            return f"square both sides: `value(c) * value(c) * {of} ~= 1`"
        case "abs" | "fabs":
            return f"compare with a range: `{of} in -1..1`"
        case "implies":
            return "write `not a or b`"
    if function in _POWERS:
        return f"multiply: `{of} * {of}`"
    if function in _QUOTIENTS:
        return "`/` between whole numbers drops the remainder"
    return "`%` is the remainder" if function in _REMAINDERS else ""


def some_element(function: str, condition: str) -> Hint:
    """A hint to say with `all` that a condition holds for some element; empty if not meant."""
    if function not in _SOME or not condition:
        return Hint("")
    compared = _COMPARED.fullmatch(condition)
    if compared is None or _JOINED.search(condition):
        return write(f"not all(not ({condition}))")
    left, sign, right = compared.groups()
    return write(f"not all({left} {OPPOSITE[cast(Comparison, sign)]} {right})")
