"""Write rules and limits as text."""

from typing import Any, assert_never

from collage_dsl.language.write.quoting import quoted
from collage_dsl.rules import FusionRule, Limits
from collage_dsl.rules.predicate import Predicate
from collage_dsl.rules.rule_functions import (
    LIMITS,
    Argument,
    Choice,
    RuleFunction,
    Sort,
    WholeNumber,
    function_of,
    limit_default,
    primitives_text,
)

WIDTH = 100


def rule_text(rule: FusionRule, indent: int) -> str:
    """The text of `rule`; if a line would be too long, each argument has its own line."""
    function = function_of(rule)
    arguments = _arguments(function, rule, indent + 2)
    line = f"{function.name}({', '.join(arguments)})"
    if indent + len(line) <= WIDTH - len("rules ;") and "\n" not in line:
        return line
    inner, outer = " " * (indent + 2), " " * indent
    lines = "".join(f"{inner}{argument},\n" for argument in arguments)
    return f"{function.name}(\n{lines}{outer})"


def limit_texts(limits: Limits) -> list[tuple[str, str]]:
    """The limits that differ from the defaults; one that is written alone has an empty value."""
    found = ((limit, getattr(limits, limit.name)) for limit in LIMITS)
    return [
        (limit.name, "" if limit.sort is Sort.TRUTH else _value(limit, value, 0))
        for limit, value in found
        if value != limit_default(limit)
    ]


def _arguments(function: RuleFunction, rule: FusionRule, indent: int) -> list[str]:
    """The texts of the arguments that differ from the defaults."""
    found: list[str] = []
    for argument in function.arguments:
        value = getattr(rule, argument.name)
        if argument.sort is Sort.LIMITS:
            found += (f"{name}: {text or 'true'}" for name, text in limit_texts(value))
        elif value == function.default(argument):
            continue
        elif argument.many and not value:
            raise ValueError(f"{function.name} without any argument cannot be written")
        elif argument.many:
            found += (_value(argument, each, indent) for each in value)
        else:
            text = _value(argument, value, indent)
            found.append(f"{argument.name}: {text}" if argument.is_named else text)
    return found


def _value(argument: Argument, value: Any, indent: int) -> str:
    match argument.sort:
        case Sort.RULE:
            return rule_text(value, indent)
        case Sort.PATTERN:
            return str(value.name)
        case Sort.PREDICATE:
            return _predicate(value)
        case Sort.LABEL:
            return quoted(value)
        case Sort.PRIMITIVES:
            return primitives_text(value)
        case Sort.OPERATORS | Sort.VARIANTS:
            return f"[{', '.join(value)}]"
        case Sort.TAPS:
            return "allowed"
        case Sort.KIND_OR_NONE:
            return "none" if value is None else str(value)
        case WholeNumber():
            return "any" if value is None else str(value)
        case Sort.KIND | Choice():
            return str(value)
        case Sort.LIMITS | Sort.TRUTH:
            raise AssertionError(argument)
        case _:
            assert_never(argument.sort)


def _predicate(predicate: Predicate) -> str:
    return quoted(f"{predicate.backend}.supports") if predicate.backend else predicate.name
