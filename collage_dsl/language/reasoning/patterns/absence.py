"""Whether a condition can hold when an optional name is not bound."""

from collections.abc import Iterable

from collage_dsl.rules.condition import (
    And,
    Expression,
    Has,
    Holds,
    Not,
    Or,
    every_part,
    names,
    parts,
)

_UNSURE = frozenset({True, False})


def can_hold(condition: Expression, without: str) -> bool:
    """
    Whether `condition` can hold in some match that does not bind the name `without`.

    Without `b`, `rank(x) == 2 or rank(b) == 1` can hold, but `rank(b) == 1` and `has(b)` cannot.
    """
    return True in _truths(condition, without)


def needed_names(conditions: Iterable[Expression]) -> frozenset[str]:
    """The names of which `has` is asked in one of `conditions` that cannot hold without them."""
    return frozenset(
        part.of
        for each in conditions
        for part in every_part(each)
        if isinstance(part, Has) and not can_hold(each, part.of)
    )


def _truths(condition: Expression, without: str) -> frozenset[bool]:
    """The truth values that `condition` can have, apart from unknown."""
    match condition:
        case Not(inner):
            return frozenset(not each for each in _truths(inner, without))
        case And(left, right):
            return _decided(left, right, without, by=False)
        case Or(left, right):
            return _decided(left, right, without, by=True)
        case Has(name) if name == without:
            return frozenset({False})
        case _ if without in _asked(condition):
            return frozenset()
        case _:
            return _UNSURE


def _decided(left: Expression, right: Expression, without: str, *, by: bool) -> frozenset[bool]:
    """One side equal to `by` decides the result; the opposite result needs both sides."""
    sides = _truths(left, without), _truths(right, without)
    found = {by for side in sides if by in side}
    if all((not by) in side for side in sides):
        found.add(not by)
    return frozenset(found)


def _asked(expression: Expression) -> frozenset[str]:
    """The names whose facts `expression` uses. A predicate is told which values are absent."""
    leaves = (part for part in every_part(expression) if not parts(part))
    return frozenset().union(*(names(e) for e in leaves if not isinstance(e, Has | Holds)))
