"""Whether a condition follows from what is known, so that nobody need write it."""

from collections.abc import Sequence

from collage_dsl.graph.operators import operators
from collage_dsl.language.reasoning.claims.relations import Claim
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.conclusions.exclusion import related
from collage_dsl.language.reasoning.values.assuming import assume
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.language.reasoning.values.terms import terms
from collage_dsl.rules.condition import (
    All,
    Attr,
    AttrOf,
    Calculate,
    Each,
    Expression,
    Has,
    Holds,
    Item,
    Shape,
    all_of,
    every_part,
)


def is_known(ways: Sequence[Facts], condition: Expression, calls: Sequence[Called]) -> bool:
    """Whether all facts in `condition` are known in all `ways`."""
    if not _is_plain(condition):
        return False
    asked = [
        term
        for term in terms(condition)
        if not isinstance(term, Has) and not _has_value(term, calls)
    ]
    return all(way.known.issuperset(asked) for way in ways)


def follows(ways: Sequence[Facts], condition: Expression, claims: Sequence[Claim]) -> bool:
    """Whether `condition`, of which all is known, holds in all `ways`."""
    return not any(
        related(assume([way.copy()], part, holds=False), claims)
        for part in all_of(condition)
        for way in ways
    )


def _is_plain(condition: Expression) -> bool:
    """Whether `condition` is known as soon as all its terms are."""
    return not any(
        isinstance(part, Shape | Each | Item | AttrOf | All | Holds)
        or (isinstance(part, Calculate) and part.operator in "/%")
        for part in every_part(condition)
    )


def _has_value(term: object, calls: Sequence[Called]) -> bool:
    """Whether `term` is an attribute that always has a value."""
    if not isinstance(term, Attr):
        return False
    number, _, name = term.name.partition(".")
    call = next(call for call in calls if str(call.number) == number)
    known = [operators()[op].defaults for op in call.call.ops]
    return all(name not in defaults or defaults[name] is not None for defaults in known)
