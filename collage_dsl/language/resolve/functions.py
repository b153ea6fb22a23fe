"""The functions of conditions: how many arguments they take, and what they ask."""

from collections.abc import Mapping

from collage_dsl.language.resolve.sorts import Sort, Typed
from collage_dsl.rules import condition as rules
from collage_dsl.source import Span

ARGUMENTS = {
    **dict.fromkeys(("dtype", "rank", "shape", "dim", "size", "bytes", "uses", "has"), 1),
    **dict.fromkeys(("value", "min", "max", "all"), 1),
    "dim": 2,
    "place": 2,
}
FUNCTIONS = tuple(ARGUMENTS)
OF_CONSTANTS = ("value", "min", "max", "place")


def fact_of(function: str, of: str, axis: int, span: Span) -> Typed:
    facts: Mapping[str, tuple[rules.Expression, Sort]] = {
        "dtype": (rules.Dtype(of), Sort.DTYPE),
        "rank": (rules.Rank(of), Sort.NUMBER),
        "shape": (rules.Shape(of), Sort.NUMBERS),
        "dim": (rules.DimAt(of, axis), Sort.NUMBER),
        "size": (rules.Size(of), Sort.NUMBER),
        "bytes": (rules.Bytes(of), Sort.NUMBER),
        "uses": (rules.Uses(of), Sort.NUMBER),
        "has": (rules.Has(of), Sort.TRUTH),
        "value": (rules.ValueOf(of), Sort.NUMBER),
        "min": (rules.Min(of), Sort.NUMBER),
        "max": (rules.Max(of), Sort.NUMBER),
        "place": (rules.Place(of, axis), Sort.NUMBER),
    }
    value, sort = facts[function]
    return Typed(value, sort, span)


def is_function(name: str) -> bool:
    """Whether `name` is a function of conditions; a predicate cannot have such a name."""
    return name in ARGUMENTS
