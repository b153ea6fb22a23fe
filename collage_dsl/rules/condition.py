"""
Conditions of patterns: expressions about the values that a match has bound. The answer is true,
false or unknown.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, assert_never

from collage_dsl.graph import Attribute, Node
from collage_dsl.rules.predicate import Predicate
from collage_dsl.source import Span

Scalar = bool | int | float | str | None
Value = Scalar | tuple["Value", ...]
Comparison = Literal["==", "!=", "<", "<=", ">", ">="]
OPPOSITE: Mapping[Comparison, Comparison] = {
    "==": "!=",
    "!=": "==",
    "<": ">=",
    ">=": "<",
    ">": "<=",
    "<=": ">",
}
"""The comparison that holds where another one does not."""

MIRRORED: Mapping[Comparison, Comparison] = {
    "==": "==",
    "!=": "!=",
    "<": ">",
    ">=": "<=",
    ">": "<",
    "<=": ">=",
}
"""What remains true when the sides of a comparison are exchanged."""
Arithmetic = Literal["+", "-", "*", "/", "%"]


def _hash_of_term(term: Any) -> int:
    """
    Of the class too. Terms of one value are often in one dictionary: `rank(x)`, `dtype(x)`; a
    dataclass hashes the fields alone, which are the same for all of them.
    """
    return hash((type(term), term.of))


@dataclass(frozen=True, slots=True)
class Constant:
    """
    A number, a string, a dtype (by its short name), `none`, or a list of them. `1`, `1.0` and
    `true` are three constants: `1 / 8` is 0, and `1.0 / 8` is not.
    """

    value: Value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constant):
            return NotImplemented
        return self.value == other.value and _types(self.value) == _types(other.value)

    def __hash__(self) -> int:
        return hash((Constant, self.value))


def _types(value: Value) -> object:
    """The type of a value, or those of the items of a list."""
    return tuple(map(_types, value)) if isinstance(value, tuple) else type(value)


@dataclass(frozen=True, slots=True)
class Attr:
    """An attribute of the call that has the condition in its brackets."""

    name: str

    def __hash__(self) -> int:
        return hash((Attr, self.name))


@dataclass(frozen=True, slots=True)
class AttrOf:
    """`k.strides`: an attribute of the call whose value is `k`."""

    of: str
    name: str


@dataclass(frozen=True, slots=True)
class Dtype:
    """`dtype(x)`: the type of its elements, such as `f32`."""

    of: str

    __hash__ = _hash_of_term


@dataclass(frozen=True, slots=True)
class Rank:
    """`rank(x)`: the number of its dimensions."""

    of: str

    __hash__ = _hash_of_term


@dataclass(frozen=True, slots=True)
class DimAt:
    """`dim(x, axis)`: one dimension; a negative axis counts from the end."""

    of: str
    axis: int


@dataclass(frozen=True, slots=True)
class Shape:
    """`shape(x)`: the list of its dimensions."""

    of: str

    __hash__ = _hash_of_term


@dataclass(frozen=True, slots=True)
class Size:
    """`size(x)`: the number of elements."""

    of: str

    __hash__ = _hash_of_term


@dataclass(frozen=True, slots=True)
class Bytes:
    """`bytes(x)`: the memory that the elements take."""

    of: str

    __hash__ = _hash_of_term


@dataclass(frozen=True, slots=True)
class Each:
    """`strides[*]`: a comparison with it holds if it holds for every element."""

    attribute: Attr | AttrOf


@dataclass(frozen=True, slots=True)
class Item:
    """`padding[0]`: one element of an attribute; a negative index counts from the end."""

    attribute: Attr | AttrOf
    index: int


@dataclass(frozen=True, slots=True)
class ValueOf:
    """
    `value(c)`: the number that all elements of a constant are; unknown if they differ.

    A number beside it, as in `value(c) == 0.1`, is rounded to the element type.
    """

    of: str

    __hash__ = _hash_of_term


@dataclass(frozen=True, slots=True)
class Min:
    """`min(c)`: the least element of a constant."""

    of: str

    __hash__ = _hash_of_term


@dataclass(frozen=True, slots=True)
class Max:
    """`max(c)`: the greatest element of a constant."""

    of: str

    __hash__ = _hash_of_term


@dataclass(frozen=True, slots=True)
class Element:
    """`c`, inside `all(c > 0)`: an element of a constant."""

    of: str

    __hash__ = _hash_of_term


@dataclass(frozen=True, slots=True)
class Place:
    """
    `place(c, axis)`, inside `all(…)`: where the element of a constant is along an axis, from 0.

    With the condition `all(m == 0 or place(m, -1) > place(m, -2))`, all elements of a matrix on
    and below the diagonal are 0.
    """

    of: str
    axis: int


@dataclass(frozen=True, slots=True)
class All:
    """
    `all(c > 0)`: whether a condition holds for every element of a constant; it does if there is
    none.

    In `all(b ~= s * w)`, elements at the same place are taken together; a constant with one
    element goes with every place.
    """

    condition: "Expression"


@dataclass(frozen=True, slots=True)
class Range:
    """`1..4`, on the right of `in`: both ends are included."""

    least: int | float
    most: int | float


@dataclass(frozen=True, slots=True)
class Has:
    """`has(b)`: whether an optional operand is present."""

    of: str

    __hash__ = _hash_of_term


@dataclass(frozen=True, slots=True)
class Uses:
    """`uses(x)`: how many nodes use it, plus 1 if it is a result of the function."""

    of: str

    __hash__ = _hash_of_term


@dataclass(frozen=True, slots=True)
class Holds:
    """`fits(x, w)`: the answer of a predicate about the values with those names."""

    predicate: Predicate
    of: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Calculate:
    """Arithmetic on numbers. `/` drops the remainder if both sides are whole numbers."""

    operator: Arithmetic
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Compare:
    operator: Comparison
    left: "Expression"
    right: "Expression"


TOLERANCE = 1e-4
"""The relative tolerance of `~0.7071` and of `a ~= b`."""


@dataclass(frozen=True, slots=True)
class Near:
    """`a ~= b`: two numbers differ by at most `tolerance` times the one that is further from 0."""

    left: "Expression"
    right: "Expression"
    tolerance: float = TOLERANCE


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
    | AttrOf
    | Dtype
    | Rank
    | DimAt
    | Shape
    | Size
    | Bytes
    | Each
    | Item
    | ValueOf
    | Min
    | Max
    | Element
    | Place
    | All
    | Range
    | Has
    | Uses
    | Holds
    | Calculate
    | Compare
    | Near
    | Within
    | Not
    | And
    | Or
)


FUNCTIONS: Mapping[str, type[Any]] = {
    "dtype": Dtype,
    "rank": Rank,
    "shape": Shape,
    "dim": DimAt,
    "size": Size,
    "bytes": Bytes,
    "uses": Uses,
    "has": Has,
    "value": ValueOf,
    "min": Min,
    "max": Max,
    "all": All,
    "place": Place,
}
"""The functions of the language, by name."""

Question = Dtype | Rank | DimAt | Shape | Size | Bytes | Has | Uses | ValueOf | Min | Max | Place
"""What a function asks about one value."""


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
    elements: Mapping[str, int | float] = field(default_factory=dict)
    """Inside `all`, the elements that are looked at."""
    places: Mapping[Place, int] = field(default_factory=dict)
    """Inside `all`, where these elements are."""


def parts(expression: Expression) -> tuple[Expression, ...]:
    """The direct parts of `expression`; none if it is a leaf."""
    match expression:
        case Constant() | Attr() | Range() | Has() | Uses() | Holds():
            return ()
        case Calculate() | Compare() | Near() | And() | Or():
            return (expression.left, expression.right)
        case Within(value, choices):
            return (value, choices)
        case Not(condition) | All(condition):
            return (condition,)
        case Each(attribute) | Item(attribute):
            return (attribute,)
        case Dtype() | Rank() | Shape() | DimAt() | Size() | Bytes():
            return ()
        case AttrOf() | ValueOf() | Min() | Max() | Element() | Place():
            return ()
        case _:
            assert_never(expression)


def rebuilt(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """`expression` with its direct parts changed."""
    match expression:
        case Not(condition) | All(condition):
            return replace(expression, condition=change(condition))
        case Calculate() | Compare() | Near() | And() | Or():
            left, right = change(expression.left), change(expression.right)
            if left is expression.left and right is expression.right:
                return expression
            if isinstance(expression, Compare):  # most are, and `replace` is slow
                return Compare(expression.operator, left, right)
            return replace(expression, left=left, right=right)
        case Within(value, choices):
            return Within(change(value), change(choices))
        case Each(attribute) | Item(attribute):
            changed = change(attribute)
            assert isinstance(changed, Attr | AttrOf)
            return replace(expression, attribute=changed)
        case _:
            return expression


def every_part(expression: Expression) -> Iterator[Expression]:
    """`expression` and all parts in it, each before its own parts, from left to right."""
    waiting = [expression]
    while waiting:
        yield (part := waiting.pop())
        waiting += parts(part)[::-1]


def asked_places(condition: Expression) -> tuple[Place, ...]:
    """The places that are asked about, each once."""
    places = (part for part in every_part(condition) if isinstance(part, Place))
    return tuple(dict.fromkeys(places))


def all_of(condition: Expression) -> Iterator[Expression]:
    """The parts that `condition` joins by `and`."""
    match condition:
        case And(left, right):
            yield from all_of(left)
            yield from all_of(right)
        case _:
            yield condition


_OF_FACTS = (
    *(Has, Uses, Holds, Dtype, Rank, Shape, DimAt, Size, Bytes),
    *(AttrOf, ValueOf, Min, Max, Element, Place),
)


def depends_on_facts(expression: Expression) -> bool:
    """Whether the value of `expression` depends on what names are bound to."""
    return any(isinstance(part, _OF_FACTS) for part in every_part(expression))


def names(expression: Expression) -> frozenset[str]:
    """The names of a pattern that `expression` asks about."""
    match expression:
        case Holds(_, asked):
            return frozenset(asked)
        case Has(of) | Uses(of) | Dtype(of) | Rank(of) | Shape(of) | Size(of) | Bytes(of):
            return frozenset((of,))
        case DimAt(of) | AttrOf(of) | ValueOf(of) | Min(of) | Max(of) | Element(of) | Place(of):
            return frozenset((of,))
        case _:
            return frozenset().union(*map(names, parts(expression)))
