"""Find the parts of conditions whose values are reasoned about, one by one and together."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from typing import assert_never

from collage_dsl.rules.condition import (
    All,
    And,
    Attr,
    AttrOf,
    Bytes,
    Calculate,
    Compare,
    Constant,
    DimAt,
    Dtype,
    Each,
    Element,
    Expression,
    Has,
    Holds,
    Item,
    Max,
    Min,
    Near,
    Not,
    Or,
    Place,
    Range,
    Rank,
    Shape,
    Size,
    Uses,
    ValueOf,
    Within,
    rebuilt,
)

Term = Attr | Dtype | Rank | DimAt | Size | Bytes | Uses | Has | Each | Item | ValueOf | Min | Max
"""
An expression with a known set of values. Attribute names begin with the number of the call. `Has`
is also about attributes, by that name: whether the attribute has a value.
"""


has_of = lru_cache(4096)(Has)
rank_of = lru_cache(4096)(Rank)
"""The terms that are asked about most, one object for each name: it is found without comparing."""


def without_none(condition: Expression) -> Expression:
    """
    `condition`, with a comparison of an attribute with `none` as the question whether the attribute
    has a value. `Has` asks it with the name of the attribute, which is never the name of a value.
    """
    match condition:
        case Compare("==", Attr(name), Constant(None)) | Compare("==", Constant(None), Attr(name)):
            return Not(Has(name))
        case Compare("!=", Attr(name), Constant(None)) | Compare("!=", Constant(None), Attr(name)):
            return Has(name)
        case Within(Attr(name) as value, Constant(tuple() as items)) if None in items:
            others = tuple(item for item in items if item is not None)
            return Or(Not(Has(name)), Within(value, Constant(others)))
        case _:
            return condition


def terms(expression: Expression) -> Iterator[Term]:
    """The terms in `expression`; for a shape, its rank."""
    match expression:
        case Rank() | DimAt() | Size() | Dtype() | Attr() | Has() | Bytes() | Uses():
            yield expression  # first, as most expressions are one term
        case ValueOf() | Min() | Max():
            yield expression
        case Compare("==" | "!=", Attr(name), Constant(None)):
            yield Has(name)
        case Compare("==" | "!=", Constant(None), Attr(name)):
            yield Has(name)
        case Within(Attr(name), Constant(tuple() as items)) if None in items:
            yield Has(name)  # without a value it holds, and with one it is known
        case Constant() | Range() | Holds() | All() | Element() | Place() | AttrOf():
            pass
        case Each(AttrOf()) | Item(AttrOf()):
            pass
        case Shape(of):
            yield Rank(of)
        case Each() | Item():
            yield expression
        case Not(condition):
            yield from terms(condition)
        case Calculate(_, left, right) | Compare(_, left, right):
            yield from terms(left)
            yield from terms(right)
        case Within(left, right) | Near(left, right) | And(left, right) | Or(left, right):
            yield from terms(left)
            yield from terms(right)
        case _:
            assert_never(expression)


def is_count(expression: Expression) -> bool:
    """Whether it is a whole number that nobody can write as 2.0."""
    match expression:
        case Constant(int()) | Rank() | DimAt() | Size() | Bytes() | Uses():
            return True
        case Calculate(_, left, right):
            return is_count(left) and is_count(right)
        case _:
            return False


def is_fraction(expression: Expression) -> bool:
    """Whether it is calculated with a number that is written with a point: then `/` is exact."""
    match expression:
        case Constant(float()):
            return True
        case Calculate(_, left, right):
            return is_fraction(left) or is_fraction(right)
        case _:
            return False


def drops_remainder(left: Expression, right: Expression) -> bool | None:
    """Whether `left / right` is rounded down; None if that is not known."""
    if is_count(left) and is_count(right):
        return True
    return False if is_fraction(left) or is_fraction(right) else None


def factors_of(expression: Expression) -> Iterator[Expression]:
    """What is multiplied in `expression`, in order."""
    match expression:
        case Calculate("*", left, right):
            yield from factors_of(left)
            yield from factors_of(right)
        case _:
            yield expression


def root_of(product: Expression) -> tuple[Expression, int] | None:
    """What is multiplied with itself, and how many times it is there; None if others are too."""
    first, *others = factors_of(product)
    return (first, 1 + len(others)) if others and set(others) == {first} else None


_FIRST = (Attr, Each, Item, Has, Rank, DimAt, Dtype)
"""Terms that represent those of other kinds that are equal to them."""


def comes_first(one: Term, other: Term) -> bool:
    """Whether `one` is to represent `other`: a count does, because it divides as a whole number."""
    if isinstance(other, Attr | Each | Item) and is_count(one):
        return True
    return isinstance(one, _FIRST) and not isinstance(other, _FIRST)


def renamed(expression: Expression, new: Callable[[str], str]) -> Expression:
    """`expression` with the name `new(name)` for each name of a value."""
    match expression:
        case Dtype(of) | Rank(of) | DimAt(of) | Shape(of) | Size(of) | Bytes(of):
            return replace(expression, of=new(of))
        case Has(of) | Uses(of) | AttrOf(of) | ValueOf(of) | Min(of) | Max(of):
            return replace(expression, of=new(of))
        case Element(of) | Place(of):
            return replace(expression, of=new(of))
        case Holds(predicate, of):
            return Holds(predicate, tuple(map(new, of)))
        case _:
            return rebuilt(expression, partial(renamed, new=new))
