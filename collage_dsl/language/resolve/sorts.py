"""What sorts of values the parts of a condition have, and which sorts can be equal."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from collage_dsl.graph.operators import Operator
from collage_dsl.graph.types import long_dtype, short_dtype
from collage_dsl.language.messages.advice import without_quotes
from collage_dsl.language.messages.findings import listed
from collage_dsl.language.messages.hints import write
from collage_dsl.language.reasoning.operators.attribute_values import PER_AXIS
from collage_dsl.language.syntax import ast
from collage_dsl.rules import condition as rules
from collage_dsl.source import Span


class Sort(Enum):
    """What an expression evaluates to."""

    TRUTH = "true or false"
    NUMBER = "a number"
    STRING = "a string"
    DTYPE = "a dtype"
    NUMBERS = "a list of numbers"
    LIST = "a list"
    RANGE = "a range"
    NONE = "`none`"
    OBJECT = "a value that cannot be compared"
    ANY = "anything"


OF_ATTRIBUTE: Mapping[str, Sort] = {
    "int": Sort.NUMBER,
    "float": Sort.NUMBER,
    "bool": Sort.TRUTH,
    "str": Sort.STRING,
    "dtype": Sort.DTYPE,
    "ints": Sort.NUMBERS,
    "floats": Sort.NUMBERS,
    "object": Sort.OBJECT,
}
"""The sorts of attributes by their types. Of other types, such as `int|ints`, it is not known."""


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression and its sort; a written list also has its items."""

    value: rules.Expression
    sort: Sort
    span: Span
    items: tuple["Typed", ...] = ()
    attribute: str = ""
    owner: Operator | None = None
    """If this is an attribute, an operator that has it."""


def dtype_of(name: ast.Name) -> Typed | None:
    """The dtype that `name` names, as `f32` or as `float32`; None if it names none."""
    long = long_dtype(name.text)
    if long is None:
        return None
    return Typed(rules.Constant(short_dtype(long)), Sort.DTYPE, name.span)


def sort_of(value: rules.Scalar) -> Sort:
    if isinstance(value, bool):
        return Sort.TRUTH
    return Sort.STRING if isinstance(value, str) else Sort.NUMBER


def as_dtype(typed: Typed, other: Typed) -> Typed:
    """`typed` as a dtype if it is a string that names one and `other` is a dtype."""
    match typed.value:
        case rules.Constant(str() as text) if other.sort is Sort.DTYPE:
            long = long_dtype(text)
            if long is not None:
                return Typed(rules.Constant(short_dtype(long)), Sort.DTYPE, typed.span)
    return typed


def comparable(left: Typed, right: Typed) -> bool:
    """Whether values of the two sorts can be equal."""
    if Sort.NONE in (left.sort, right.sort):
        return _may_be_none(left) and _may_be_none(right)
    if Sort.OBJECT in (left.sort, right.sort):
        return False
    if Sort.ANY in (left.sort, right.sort) or left.sort is right.sort is not Sort.LIST:
        return True
    match left, right:
        case (Typed(sort=Sort.LIST), Typed(sort=Sort.LIST)):
            pairs = zip(left.items, right.items, strict=False)
            return len(left.items) == len(right.items) and all(comparable(*p) for p in pairs)
        case (Typed(sort=Sort.LIST, items=items), Typed(sort=Sort.NUMBERS)):
            return all(item.sort is Sort.NUMBER for item in items)
        case (Typed(sort=Sort.NUMBERS), Typed(sort=Sort.LIST, items=items)):
            return all(item.sort is Sort.NUMBER for item in items)
    return False


def _may_be_none(typed: Typed) -> bool:
    """Whether `typed` is `none`, or a whole attribute: the only thing that may have no value."""
    return typed.sort is Sort.NONE or isinstance(typed.value, rules.Attr | rules.AttrOf)


def meant(named: Typed, other: Typed) -> str:
    """A hint what to write instead of `named == other`, or empty."""
    if Sort.NONE in (named.sort, other.sort):
        return "only a whole attribute can be compared with `none`: `axis == none`"
    if other.sort is Sort.TRUTH and (hint := possible_values(named)):
        return hint
    match other.value:
        case rules.Constant("none"):
            return without_quotes("none")
        case rules.Constant(str() as text) if named.sort in (Sort.NUMBER, Sort.TRUTH, Sort.DTYPE):
            return _in_place_of(text, named.sort)
    if named.sort is Sort.NUMBERS and other.sort is Sort.NUMBER:
        if not named.attribute or named.attribute in PER_AXIS:
            return elements(named.attribute)
        text = other.span.text
        return f"write `[{text}]` for a list of one; {elements(named.attribute)}"
    match named.sort, other.value:
        case Sort.NUMBER, rules.Constant((int() as number,)):
            return f"write `{number}`"
        case Sort.NUMBER, rules.Constant(bool() as truth):
            return f"write `{int(truth)}`"
        case Sort.TRUTH, rules.Constant(0 | 1) if not named.attribute:
            text = " ".join(named.span.text.split())
            return f"it is a condition itself: write `{text}` or `not {text}`"
        case Sort.TRUTH, rules.Constant(0 | 1 as number):
            return f"write `{str(bool(number)).lower()}`"
        case Sort.DTYPE, _ if other.items:
            return f"write `{named.span.text} in {other.span.text}` for one of several"
        case Sort.DTYPE, _:
            return "write a dtype, such as `f32`"
        case Sort.NUMBERS, rules.Constant(str()):
            return _list_of(named)
        case Sort.STRING, _:
            return possible_values(named) or "write a string in double quotes"
    return ""


_TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def _in_place_of(text: str, sort: Sort) -> str:
    """A hint what to write in place of a string."""
    truth = _TRUTHS.get(text.lower())
    match sort:
        case Sort.NUMBER if truth is not None:
            return write(str(int(truth)))
        case Sort.TRUTH if text not in ("true", "false"):
            return "write `true` or `false`" if truth is None else write(str(truth).lower())
    return without_quotes(text)


def possible_values(named: Typed) -> str:
    """A hint which values an attribute may have; empty if they are not known."""
    if named.owner is None:
        return ""
    name = named.attribute.rpartition(".")[2]
    hints = []
    if known := named.owner.values.get(name):
        hints.append("write " + listed(f'"{value}"' for value in known))
    if name in named.owner.may_be_none:
        hints.append(f"`{named.attribute} != none` asks whether there is a value")
    return "; ".join(hints)


def elements(attribute: str) -> str:
    """A hint to compare the elements of a list, not the list."""
    return f"`{attribute}[*]` is each of them" if attribute else ""


def _list_of(named: Typed) -> str:
    """A hint that shows a list which the attribute may be, by its default."""
    default = named.owner.defaults.get(named.attribute) if named.owner else None
    return f"write a list, such as `{list(default)}`" if isinstance(default, tuple) else ""


def called(typed: Typed) -> str:
    match typed.value:
        case rules.Constant(str() as text) if typed.sort is Sort.STRING:
            return f'the string "{text}"'
    return typed.sort.value
