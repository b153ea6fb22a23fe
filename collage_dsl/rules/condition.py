"""
Conditions of patterns: expressions about the values that a match has bound. The answer is true,
false or unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, assert_never

from collage_dsl.graph import Attribute, Node
from collage_dsl.rules.predicate import Predicate
from collage_dsl.source import Span

Scalar = bool | int | float | str | None
Value = Scalar | tuple["Value", ...]
Comparison = Literal["==", "!=", "<", "<=", ">", ">="]
Arithmetic = Literal["+", "-", "*", "/", "%"]


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, a string, a dtype (by its short name), `none`, or a list of them."""

    value: Value


@dataclass(frozen=True, slots=True)
class Attr:
    """An attribute of the call that has the condition in its brackets."""

    name: str


@dataclass(frozen=True, slots=True)
class Dtype:
    """`dtype(x)`: the type of its elements, such as `f32`."""

    of: str


@dataclass(frozen=True, slots=True)
class Rank:
    """`rank(x)`: the number of its dimensions."""

    of: str


@dataclass(frozen=True, slots=True)
class DimAt:
    """`dim(x, axis)`: one dimension; a negative axis counts from the end."""

    of: str
    axis: int


@dataclass(frozen=True, slots=True)
class Shape:
    """`shape(x)`: the list of its dimensions."""

    of: str


@dataclass(frozen=True, slots=True)
class Size:
    """`size(x)`: the number of elements."""

    of: str


@dataclass(frozen=True, slots=True)
class Bytes:
    """`bytes(x)`: the memory that the elements take."""

    of: str


@dataclass(frozen=True, slots=True)
class Each:
    """`strides[*]`: a comparison with it holds if it holds for every element."""

    attribute: Attr


@dataclass(frozen=True, slots=True)
class Range:
    """`1..4`, on the right of `in`: both ends are included."""

    least: int | float
    most: int | float


@dataclass(frozen=True, slots=True)
class Has:
    """`has(b)`: whether an optional operand is present."""

    of: str


@dataclass(frozen=True, slots=True)
class Uses:
    """`uses(x)`: how many nodes use it, plus 1 if it is a result of the function."""

    of: str


@dataclass(frozen=True, slots=True)
class Holds:
    """`fits(x, w)`: the answer of a predicate about the values with those names."""

    predicate: Predicate
    of: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Calculate:
    """Arithmetic on numbers; `/` and `%` are Python's `//` and `%`."""

    operator: Arithmetic
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Compare:
    operator: Comparison
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Within:
    """`value in [a, b]`."""

    value: "Expression"
    choices: "Expression"


@dataclass(frozen=True, slots=True)
class Not:
    condition: "Expression"


@dataclass(frozen=True, slots=True)
class And:
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Or:
    left: "Expression"
    right: "Expression"


Expression = (
    Constant
    | Attr
    | Dtype
    | Rank
    | DimAt
    | Shape
    | Size
    | Bytes
    | Each
    | Range
    | Has
    | Uses
    | Holds
    | Calculate
    | Compare
    | Within
    | Not
    | And
    | Or
)


@dataclass(frozen=True, slots=True)
class Where:
    """A condition, the reason that is shown if it does not hold, and its place in the file."""

    condition: Expression
    reason: str = ""
    span: Span | None = field(default=None, compare=False, repr=False)


class Unknown:
    """The value of an expression that depends on something that is not known."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = Unknown()

Bindings = Mapping[str, Node]
Attributes = Mapping[str, Attribute]


class World(Protocol):
    """What a condition can ask about, besides the nodes that names are bound to."""

    said: str
    """Why the last predicate that was asked does not hold; empty if it holds."""

    def uses(self, node: Node) -> int:
        """How many nodes use `node`, plus 1 if the function returns it."""
        ...

    def holds(self, predicate: Predicate, operands: tuple[Node | None, ...]) -> bool:
        """The answer of `predicate`. Raises PredicateError if it cannot be asked."""
        ...


@dataclass(frozen=True, slots=True)
class Given:
    """What a condition is evaluated on: the bound nodes, a call's attributes, and the world."""

    bound: Bindings = field(default_factory=dict)
    attrs: Attributes = field(default_factory=dict)
    world: World | None = None


def parts(expression: Expression) -> tuple[Expression, ...]:
    """The direct parts of `expression`; none if it is a leaf."""
    match expression:
        case Not(condition):
            return (condition,)
        case Calculate(_, left, right) | Compare(_, left, right):
            return (left, right)
        case Within(left, right) | And(left, right) | Or(left, right):
            return (left, right)
        case Constant() | Attr() | Each() | Range() | Has() | Uses() | Holds():
            return ()
        case Dtype() | Rank() | Shape() | DimAt() | Size() | Bytes():
            return ()
        case _:
            assert_never(expression)


def depends_on_facts(expression: Expression) -> bool:
    """Whether the value of `expression` depends on what names are bound to."""
    match expression:
        case Has() | Uses() | Holds() | Dtype() | Rank() | Shape() | DimAt() | Size() | Bytes():
            return True
        case _:
            return any(map(depends_on_facts, parts(expression)))


def names(expression: Expression) -> frozenset[str]:
    """The names of a pattern that `expression` asks about."""
    match expression:
        case Holds(_, asked):
            return frozenset(asked)
        case Has(of) | Uses(of) | Dtype(of) | Rank(of) | Shape(of) | Size(of) | Bytes(of):
            return frozenset((of,))
        case DimAt(of):
            return frozenset((of,))
        case _:
            return frozenset().union(*map(names, parts(expression)))
