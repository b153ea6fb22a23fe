"""Recognize the mistake at the place where a file cannot be read on."""

from collections.abc import Iterator

from collage_dsl.language.syntax import (
    mistakes_in_conditions,
    mistakes_in_graphs,
    mistakes_in_items,
    mistakes_in_patterns,
    mistakes_in_settings,
    mistakes_in_tests,
)
from collage_dsl.language.syntax.misspelt import misspelt
from collage_dsl.language.syntax.mistakes import Advice, Mistake, Place
from collage_dsl.language.syntax.mistakes_in_calls import meant_in_call


def meant(place: Place) -> Advice | None:
    """What to write instead of the text at `place`; None if no mistake is recognized."""
    if said := misspelt(place):
        return said
    if place.inside[-1:] in (("graph",), ("pattern",)) and (said := meant_in_call(place)):
        return said
    return next((said for each in _mistakes(place) if (said := each.advice_at(place))), None)


def _mistakes(place: Place) -> Iterator[Mistake]:
    """The mistakes that are possible at `place`, from special ones to general ones."""
    if not place.inside:
        yield from mistakes_in_items.MISTAKES
    elif place.inside[-1] == "graph":
        yield from mistakes_in_graphs.MISTAKES
    elif place.inside[0] == "test":
        yield from mistakes_in_tests.MISTAKES
    elif place.inside[0] == "target":
        if len(place.inside) == 1:
            yield from mistakes_in_settings.RULES_ALONE
        yield from mistakes_in_settings.MISTAKES
    elif place.inside[0] == "pattern":
        yield from mistakes_in_patterns.STATEMENTS
        if place.before and not place.is_expression:
            yield from mistakes_in_patterns.OPERANDS
    if place.is_expression:
        yield from mistakes_in_conditions.MISTAKES
