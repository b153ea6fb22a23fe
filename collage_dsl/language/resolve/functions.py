"""The functions of conditions: how many arguments they take, and what they ask."""

from dataclasses import fields

from collage_dsl.language.resolve.sorts import Sort, Typed
from collage_dsl.rules.condition import FUNCTIONS
from collage_dsl.source import Span

ARGUMENTS = {name: len(fields(asked)) for name, asked in FUNCTIONS.items()}
_SORTS = {"dtype": Sort.DTYPE, "shape": Sort.NUMBERS, "has": Sort.TRUTH}
OF_CONSTANTS = ("value", "min", "max", "place")


def fact_of(function: str, of: str, axis: int, span: Span) -> Typed:
    value = FUNCTIONS[function](*(of, axis)[: ARGUMENTS[function]])
    return Typed(value, _SORTS.get(function, Sort.NUMBER), span)


def is_function(name: str) -> bool:
    """Whether `name` is a function of conditions; a predicate cannot have such a name."""
    return name in ARGUMENTS
