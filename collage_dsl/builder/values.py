"""The values of a pattern: operands, calls of operators and of patterns."""

from dataclasses import dataclass
from typing import Literal

from collage_dsl.builder.terms import Term, attribute, checked_types
from collage_dsl.graph import Kind
from collage_dsl.language.messages.findings import count
from collage_dsl.rules import Pattern
from collage_dsl.rules import condition as conditions
from collage_dsl.rules.condition import Value as Plain
from collage_dsl.rules.condition import Where
from collage_dsl.rules.pattern import (
    ANY,
    OPEN,
    Anything,
    Call,
    Either,
    FieldOf,
    Flat,
    ListOf,
    Number,
    Operand,
    PathFrom,
    PatternCall,
    Reference,
    Repeat,
    TupleOf,
    TupleOfEach,
)
from collage_dsl.rules.predicate import Predicate


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a pattern. Conditions can only use one that has a name."""

    operand: Operand

    @property
    def name(self) -> str:
        if not isinstance(self.operand, Reference):
            raise ValueError("a condition asks about a value with a name: `bind` it first")
        return self.operand.name

    @checked_types
    def __getitem__(self, index: int) -> "Value":
        """A field of a tuple."""
        return Value(FieldOf(self.operand, index))

    @property
    def dtype(self) -> Term:
        return Term(conditions.Dtype(self.name))

    @property
    def rank(self) -> Term:
        return Term(conditions.Rank(self.name))

    @property
    def shape(self) -> Term:
        return Term(conditions.Shape(self.name))

    @property
    def size(self) -> Term:
        """The number of elements."""
        return Term(conditions.Size(self.name))

    @property
    def bytes(self) -> Term:
        return Term(conditions.Bytes(self.name))

    @property
    def uses(self) -> Term:
        return Term(conditions.Uses(self.name))

    @property
    def present(self) -> Term:
        """`has(value)`, for an optional value."""
        return Term(conditions.Has(self.name))

    @property
    def value(self) -> Term:
        """`value(c)`: the number that all elements of a constant are."""
        return Term(conditions.ValueOf(self.name))

    @property
    def min(self) -> Term:
        """`min(c)`: the least element of a constant."""
        return Term(conditions.Min(self.name))

    @property
    def max(self) -> Term:
        """`max(c)`: the greatest element of a constant."""
        return Term(conditions.Max(self.name))

    @property
    def element(self) -> Term:
        """An element of a constant, inside `all_elements`."""
        return Term(conditions.Element(self.name))

    @checked_types
    def place(self, axis: int) -> Term:
        """Where an element of a constant is along an axis, inside `all_elements`."""
        return Term(conditions.Place(self.name, axis))

    @checked_types
    def attribute(self, name: str) -> Term:
        """`k.strides`: an attribute of the call that is this value."""
        return Term(conditions.AttrOf(self.name, name))

    @checked_types
    def dim(self, axis: int) -> Term:
        return Term(conditions.DimAt(self.name, axis))


ANYTHING = Value(Anything())
"""`_`: any value; it is not part of the match."""


@checked_types
def number(value: float, *, within: float = 0.0) -> Value:
    """A constant all of whose elements are `value`, up to a relative tolerance."""
    return Value(Number(value, within))


@checked_types
def approximately(value: float) -> Value:
    """`~0.7071`, with the default tolerance."""
    return Value(Number(value, conditions.TOLERANCE))


@checked_types
def list_of(*items: int | str) -> Value:
    """`[1, _, ..]`: a list that the program writes. `PatternBuilder.list_of` names its items."""
    found = tuple(map(_list_item, items))
    return Value(ListOf(found))


def _list_item(item: int | str) -> int | Literal["_", ".."]:
    if isinstance(item, str) and item not in (ANY, OPEN):
        raise ValueError(f"`{item}` is a name: write `list_of` of the pattern's builder")
    return item if isinstance(item, int) else ANY if item == ANY else OPEN


@checked_types
def extern_predicate(name: str, *parameters: str, source: str) -> Predicate:
    """`extern predicate fits(x, w) from "acme.predicates:fits";`"""
    return Predicate(name, parameters, source)


@checked_types
def holds(predicate: Predicate, *values: Value) -> Term:
    """A condition that calls host code with values: `fits(x, w)`."""
    return Term(conditions.Holds(predicate, tuple(value.name for value in values)))


@dataclass(frozen=True, slots=True)
class Operators:
    """Alternative operators and kinds, to be called: `one("nn.relu", Kind.BROADCAST)(x, b)`."""

    names: tuple[str | Kind, ...]

    @checked_types
    def __call__(
        self,
        *operands: Value,
        where: tuple[Term, ...] = (),
        optional: bool = False,
        ordered: bool = False,
        shared: bool = False,
        flat: bool = False,
        **attributes: Plain,
    ) -> Value:
        """Keywords give the required values of attributes; `where` has other conditions."""
        equal = (attribute(name) == value for name, value in attributes.items())
        asked = tuple(Where(term.expression) for term in (*equal, *where))
        inner = tuple(operand.operand for operand in operands)
        if flat:
            if len(self.names) != 1 or self.kinds or asked or optional or ordered:
                raise ValueError("a flat call is of one operator, and has no conditions")
            return Value(Flat(self.ops[0], inner, shared))
        return Value(Call(self.ops, inner, asked, optional, ordered, shared, self.kinds))

    @property
    def ops(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if not isinstance(name, Kind))

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(name for name in self.names if isinstance(name, Kind))


@checked_types
def one(*operators: str | Kind) -> Operators:
    return Operators(operators)


@checked_types
def match(pattern: Pattern, *operands: Value, optional: bool = False) -> Value:
    """A call of another pattern: the value that it matches."""
    if len(operands) != len(pattern.parameters):
        said = f"`{pattern.name}` takes {count(len(pattern.parameters), 'operand')}"
        raise ValueError(f"{said}, not {len(operands)}")
    return Value(PatternCall(pattern, tuple(o.operand for o in operands), optional))


@checked_types
def either(*choices: Value) -> Value:
    if not choices:
        raise ValueError("`either` needs at least one value")
    return Value(Either(tuple(choice.operand for choice in choices)))


@checked_types
def tuple_of(*fields: Value) -> Value:
    return Value(TupleOf(tuple(value.operand for value in fields)))


@checked_types
def tuple_of_each(least: int, most: int, field: Value) -> Value:
    """`each[2..8] act(_)`: a tuple of any length within bounds."""
    return Value(TupleOfEach(field.operand, least, most))


@checked_types
def path(least: int, most: int, operators: Operators, origin: Value) -> Value:
    """`path[1..6] elementwise from k`: a value computed from `origin` by these calls alone."""
    return Value(PathFrom(operators.ops, origin.operand, least, most, operators.kinds))


@checked_types
def repeat(least: int, most: int, call: Value) -> Value:
    if not isinstance(call.operand, Call | PatternCall):
        raise ValueError("only the call of an operator or of a pattern can be repeated")
    return Value(Repeat(call.operand, least, most))
