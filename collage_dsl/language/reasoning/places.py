"""Decide what a condition asks of the places of elements, where dimensions are known."""

from collections.abc import Iterator

from collage_dsl.language.reasoning.domain import Values, between, one_of
from collage_dsl.language.reasoning.facts import Facts
from collage_dsl.language.reasoning.knowing import count_elements
from collage_dsl.rules.condition import (
    OPPOSITE,
    And,
    Compare,
    Comparison,
    Constant,
    DimAt,
    Element,
    Expression,
    Or,
    Place,
    Size,
    parts,
)

_TRUE, _FALSE = Constant(True), Constant(False)


def with_known_places(way: Facts, condition: Expression) -> Expression:
    """
    A condition on each element, with what it asks of places decided as far as their dimensions
    decide it: along a dimension of 4, no place is above 3.
    """
    match condition:
        case And(left, right):
            one, other = with_known_places(way, left), with_known_places(way, right)
            if _FALSE in (one, other):
                return _FALSE
            return other if one == _TRUE else one if other == _TRUE else And(one, other)
        case Or(left, right):
            one, other = with_known_places(way, left), with_known_places(way, right)
            if _TRUE in (one, other):
                return _TRUE
            return other if one == _FALSE else one if other == _FALSE else Or(one, other)
        case Compare(operator, Place(of, axis), Constant(int() as number)):
            _, most = way.of(DimAt(of, axis)).bounds()
            places = between(0, most - 1, whole=True)
            if not _may_hold(operator, places, number):
                return _FALSE
            return condition if _may_hold(OPPOSITE[operator], places, number) else _TRUE
        case _:
            return condition


def _may_hold(operator: Comparison, places: Values, number: int) -> bool:
    least, most = places.bounds()
    match operator:
        case "==":
            return number in places
        case "!=":
            return not (least == most == number)
        case "<" | "<=":
            return least < number or (operator == "<=" and least == number)
        case _:
            return most > number or (operator == ">=" and most == number)


def no_elements(way: Facts, condition: Expression) -> None:
    """Add that a condition which holds for no element holds for each: there are none."""
    for name in dict.fromkeys(_constants(condition)):
        count_elements(way, name)
        way.narrow(Size(name), one_of((0,)))


def _constants(condition: Expression) -> Iterator[str]:
    match condition:
        case Element(of) | Place(of):
            yield of
        case _:
            for part in parts(condition):
                yield from _constants(part)
