"""The syntax of a graph in the text notation, before names are resolved."""

from dataclasses import dataclass

from collage_dsl.language.syntax.ast import Broken, Literal, Name
from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class Nothing:
    """`none`."""

    span: Span


@dataclass(frozen=True, slots=True)
class LiteralList:
    items: tuple["Value", ...]
    span: Span


Value = Literal | LiteralList | Name | Nothing
"""The value of an attribute or a literal operand. A name is a dtype or a symbolic dimension."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """`f32[n, 64]`; `dims` is None for `f32[*]`."""

    dtype: Name
    dims: tuple[int | str, ...] | None
    span: Span


@dataclass(frozen=True, slots=True)
class TupleType:
    fields: tuple["Type", ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ObjectType:
    name: Name
    span: Span


Type = TensorType | TupleType | ObjectType


@dataclass(frozen=True, slots=True)
class Constant:
    """`const f32[2] [1, 2]`, or without a value."""

    type: TensorType
    value: Value | None
    span: Span


GraphOperand = Constant | Value
"""An operand in a graph. A name is the name of a node."""


@dataclass(frozen=True, slots=True)
class GraphCall:
    operator: Name
    operands: tuple[GraphOperand, ...]
    attributes: tuple[tuple[Name, Value], ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Tuple:
    fields: tuple[Name, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Projection:
    of: Name
    index: int
    span: Span


NodeValue = GraphCall | Constant | Tuple | Projection | Value


@dataclass(frozen=True, slots=True)
class Input:
    name: Name
    type: Type


@dataclass(frozen=True, slots=True)
class Node:
    name: Name
    type: Type | None
    value: NodeValue


@dataclass(frozen=True, slots=True)
class Return:
    """`return a, b;`; `return a,;` is a tuple of one."""

    names: tuple[Name, ...]
    is_tuple: bool
    span: Span


Statement = Input | Node | Return


@dataclass(frozen=True, slots=True)
class Graph:
    statements: tuple[Statement, ...]
    span: Span
    broken: tuple[Broken, ...]
