"""What installed packages declare by name: backends, sources of costs, search strategies."""

import os
import sys
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points

Place = tuple[str, int]
"""A folder on the path of imports, and when a package in it was last installed or removed."""


def declared(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name."""
    return {point.name: point for point in _points(group, tuple(_places()))}


@lru_cache(8)
def _points(group: str, places: tuple[Place, ...]) -> EntryPoints:
    """Those of all packages that are installed in `places`, which takes long to read."""
    return entry_points(group=group)


def _places() -> Iterator[Place]:
    for folder in sys.path:
        try:
            yield folder, os.stat(folder or ".").st_mtime_ns
        except OSError:
            yield folder, 0


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The message that no `kind` has this name, with the nearest known one and all others."""
    names = list(known)
    close = get_close_matches(name, names, n=1)
    hint = f" (did you mean `{close[0]}`?)" if close else ""
    return f"no {kind} is named `{name}`{hint}; known are {', '.join(f'`{n}`' for n in names)}"
