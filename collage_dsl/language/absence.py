"""Whether a condition can hold where a name stands for nothing."""

from typing import assert_never

from collage_dsl.rules.condition import (
    And,
    Attr,
    Bytes,
    Calculate,
    Compare,
    Constant,
    DimAt,
    Dtype,
    Each,
    Expression,
    Has,
    Holds,
    Not,
    Or,
    Range,
    Rank,
    Shape,
    Size,
    Uses,
    Within,
)

_UNSURE = frozenset({True, False})


def can_hold(condition: Expression, without: str) -> bool:
    """
    Whether `condition` may hold in a match that binds nothing to the name `without`, whatever
    else is matched: `rank(x) == 2 or rank(b) == 1` without `b`, but not `rank(b) == 1`. Nobody
    asks about a name of which `condition` says `has`, so that one may answer either way here.
    """
    return True in _truths(condition, without)


def _truths(condition: Expression, without: str) -> frozenset[bool]:
    """What `condition` may be, besides unknown."""
    match condition:
        case Not(inner):
            return frozenset(not each for each in _truths(inner, without))
        case And(left, right):
            return _decided(left, right, without, by=False)
        case Or(left, right):
            return _decided(left, right, without, by=True)
        case _ if without in _asked(condition):
            return frozenset()
        case _:
            return _UNSURE


def _decided(left: Expression, right: Expression, without: str, *, by: bool) -> frozenset[bool]:
    """One side that is `by` decides alone; for the other answer it takes both."""
    sides = _truths(left, without), _truths(right, without)
    found = {by for side in sides if by in side}
    if all((not by) in side for side in sides):
        found.add(not by)
    return frozenset(found)


def _asked(expression: Expression) -> frozenset[str]:
    """The names that `expression` asks for a fact of."""
    match expression:
        case Dtype(of) | Rank(of) | DimAt(of) | Shape(of) | Size(of) | Bytes(of) | Uses(of):
            return frozenset({of})
        case Calculate(_, left, right) | Compare(_, left, right):
            return _asked(left) | _asked(right)
        case Within(left, right) | And(left, right) | Or(left, right):
            return _asked(left) | _asked(right)
        case Not(inner):
            return _asked(inner)
        case Has() | Holds() | Constant() | Attr() | Each() | Range():
            return frozenset()  # a predicate is told what is not there
        case _:
            assert_never(expression)
