"""Patterns, and what they are made of."""

from dataclasses import dataclass

from collage_dsl.language.syntax.ast.expressions import Expression, Literal, Name
from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class Number:
    """`0.5`, or approximately: `~0.7071` or `~0.7071 within 1e-3`."""

    value: float
    approximate: bool
    span: Span
    within: "Literal | None" = None


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """
    `(nn.relu | nn.gelu)?(t) [axis == 1]`. `operators` are names, unless the text is wrong.
    """

    operators: tuple["Operand", ...]
    optional: bool
    operands: tuple["Operand", ...]
    attributes: tuple[Expression, ...]
    span: Span
    modifiers: tuple[Name, ...] = ()
    """`ordered`, `flat`, `shared`."""


@dataclass(frozen=True, slots=True)
class TupleOf:
    """`(a, b)`"""

    fields: tuple["Operand", ...]
    span: Span


@dataclass(frozen=True, slots=True)
class FieldOf:
    """`s.0`"""

    of: "Operand"
    index: int
    span: Span


@dataclass(frozen=True, slots=True)
class Repeat:
    """`repeat[1..6] act(x)`"""

    least: int
    most: int
    call: OperatorCall
    span: Span


@dataclass(frozen=True, slots=True)
class TupleOfEach:
    """`each[2..8] act(_)`"""

    least: int
    most: int
    field: "Operand"
    span: Span


@dataclass(frozen=True, slots=True)
class PathFrom:
    """`path[1..6] elementwise from k`. `operators` are names, unless the text is wrong."""

    least: int
    most: int
    operators: tuple["Operand", ...]
    origin: "Operand"
    span: Span


@dataclass(frozen=True, slots=True)
class ListOf:
    """`[1, n, _]`, `[n, ..]`: a list that the program writes. A `..` is a name."""

    items: tuple[Name | Literal, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Either:
    """`(nn.relu(x) | add(x, b))`"""

    choices: tuple["Operand", ...]
    span: Span


Operand = (
    Name
    | Number
    | OperatorCall
    | TupleOf
    | TupleOfEach
    | FieldOf
    | Repeat
    | PathFrom
    | Either
    | ListOf
)


@dataclass(frozen=True, slots=True)
class Excluded:
    """`not nn.relu`, `not (activation | const)`"""

    names: tuple[Name, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Parameter:
    """`x`, `w: const`, `b?: const`, `x: [n, 16]`, `w: const & [n, c]`, `x: not nn.relu`."""

    name: Name
    optional: bool
    tag: Name | Excluded | None
    dims: "Dims | None" = None


@dataclass(frozen=True, slots=True)
class Dims:
    """`[n, 16, _]`, `[.., n]`"""

    items: tuple[Name | Literal, ...]
    """A `..` is a name."""
    span: Span


@dataclass(frozen=True, slots=True)
class Binding:
    name: Name
    value: Operand


@dataclass(frozen=True, slots=True)
class Where:
    condition: Expression
    reason: str


@dataclass(frozen=True, slots=True)
class Taps:
    """`taps none;` or `taps allowed;`"""

    value: Name


@dataclass(frozen=True, slots=True)
class Anchor:
    """`anchor k;`"""

    name: Name


@dataclass(frozen=True, slots=True)
class Yield:
    names: tuple[Name, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Pattern:
    name: Name
    parameters: tuple[Parameter, ...]
    statements: tuple["PatternStatement", ...]
    span: Span


PatternStatement = Binding | Where | Taps | Anchor | Yield
