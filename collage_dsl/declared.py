"""What installed packages declare by name: backends, sources of costs, search strategies."""

from collections.abc import Iterable
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points


def declared(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name."""
    return {point.name: point for point in entry_points(group=group)}


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The message that no `kind` has this name, with the nearest known one and all others."""
    names = list(known)
    close = get_close_matches(name, names, n=1)
    hint = f" (did you mean `{close[0]}`?)" if close else ""
    return f"no {kind} is named `{name}`{hint}; known are {', '.join(f'`{n}`' for n in names)}"
