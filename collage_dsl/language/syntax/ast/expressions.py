"""Expressions: conditions, rules, and the values of settings."""

from dataclasses import dataclass

from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class Name:
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a string, `true` or `false`."""

    value: bool | int | float | str
    span: Span


@dataclass(frozen=True, slots=True)
class List:
    items: tuple["Expression", ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Argument:
    """`value`, or `name: value`."""

    name: Name | None
    value: "Expression"


@dataclass(frozen=True, slots=True)
class Application:
    """`function(arguments)`."""

    function: Name
    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Arrow:
    """`left -> right`."""

    left: Name
    right: Name
    span: Span


@dataclass(frozen=True, slots=True)
class Operation:
    """`left operator right`; `not` has no left side."""

    operator: str
    left: "Expression | None"
    right: "Expression"
    span: Span


@dataclass(frozen=True, slots=True)
class Elements:
    """`strides[*]`: each element of an attribute."""

    of: Name
    span: Span


@dataclass(frozen=True, slots=True)
class Index:
    """`padding[0]`: one element of an attribute; a negative index counts from the end."""

    of: Name
    index: int
    span: Span


@dataclass(frozen=True, slots=True)
class Near:
    """`a ~= b`, `a ~= b within 1e-3`."""

    left: "Expression"
    right: "Expression"
    within: Literal | None
    span: Span


@dataclass(frozen=True, slots=True)
class Range:
    """`1..4`, both ends included."""

    least: int | float
    most: int | float
    span: Span


Expression = (
    Name | Elements | Index | Range | Literal | List | Application | Arrow | Operation | Near
)
