"""Write values of conditions in messages."""

from collections.abc import Iterable

from collage_dsl.graph.types import long_dtype
from collage_dsl.rules.condition import Value

MOST_SHOWN = 6
"""Of more values than this, none is named."""

ENORMOUS = 1 << 63
"""Whole numbers from here on are not named."""


def shown_in_order(values: Iterable[Value]) -> list[str]:
    """The values in words: numbers by size, then others by their text."""
    return list(map(shown, sorted(values, key=_order)))


def _order(value: Value) -> tuple[bool, float, str]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return False, value, ""
    return True, 0, shown(value)


def shown(value: Value) -> str:
    match value:
        case tuple():
            return f"[{', '.join(map(shown, value))}]"
        case bool():
            return str(value).lower()
        case str() if long_dtype(value) is None:
            return f'"{value}"'
        case _:
            return str(value)
