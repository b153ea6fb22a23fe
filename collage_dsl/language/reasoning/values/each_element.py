"""What a condition on each element of constants says of the least and the greatest of them."""

from collections.abc import Iterator
from functools import partial

from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.language.reasoning.values.knowing import count_elements
from collage_dsl.rules.condition import (
    Compare,
    Constant,
    Element,
    Expression,
    Max,
    Min,
    Place,
    Size,
    ValueOf,
    asked_places,
    every_part,
    rebuilt,
)


def constants_in(condition: Expression) -> tuple[str, ...]:
    """The constants whose elements, or the places of them, `condition` asks about."""
    asked = (part.of for part in every_part(condition) if isinstance(part, Element | Place))
    return tuple(dict.fromkeys(asked))


def may_be_empty(way: Facts, name: str) -> bool:
    """Whether a constant may have no elements."""
    count_elements(way, name)
    return way.possible and way.of(Size(name)).bounds()[0] < 1


def of_ends(way: Facts, condition: Expression) -> tuple[Expression, ...]:
    """
    What `condition`, which holds for each element, says of the least and the greatest one, for
    constants that have elements.

    An element of another constant, or a place, that is left in what it says is one that is not
    known: it need not be the same where the condition is about the least and about the greatest
    element, so it has values, and nothing is equal to it.

    If `a > b` for the elements at each place, then `max(a) > max(b)` and `min(a) > min(b)`. A
    condition on places is also said of the first element, the one at place 0 along each axis.
    """
    said = tuple(_of_ends(way, condition))
    return (*said, _of_first(condition)) if asked_places(condition) else said


def first_element(name: str) -> ValueOf:
    """The first element of a constant."""
    return ValueOf(f"{name}[0]")


def _of_first(condition: Expression) -> Expression:
    match condition:
        case Element(of):
            return first_element(of)
        case Place():
            return Constant(0)
        case _:
            return rebuilt(condition, _of_first)


def _of_ends(way: Facts, condition: Expression) -> Iterator[Expression]:
    for name in constants_in(condition):
        yield _with_element(condition, name, Max(name))
        if way.first(Max(name)) != way.first(Min(name)):
            yield _with_element(condition, name, Min(name))
    match condition:
        case Compare(operator, Element(of), Element(other)) if operator != "!=":
            yield Compare(operator, Max(of), Max(other))
            yield Compare(operator, Min(of), Min(other))


def _with_element(condition: Expression, of: str, element: Expression) -> Expression:
    if condition == Element(of):
        return element
    return rebuilt(condition, partial(_with_element, of=of, element=element))
