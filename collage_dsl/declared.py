"""What installed packages declare by name: backends, sources of costs, search strategies."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any, TypeVar

Result = TypeVar("Result")

Place = tuple[str, int]
"""A folder on the path of imports, and when a package in it was last installed or removed."""


def declared(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name."""
    return {point.name: point for point in every_declared(group)}


def every_declared(group: str) -> EntryPoints:
    """The entry points of a group. Two packages may declare one name."""
    return _points(group, tuple(_places()))


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


def described(kind: str, point: EntryPoint) -> str:
    """An entry point in messages: its name, and where the package has it."""
    return f"the {kind} `{point.name}` ({point.value})"


def loaded(kind: str, point: EntryPoint, error: Callable[[str], Exception]) -> Any:
    """The function or class of an entry point. Raises `error` whatever the package raises."""
    return without_faults(point.load, f"cannot load {described(kind, point)}", error)


def without_faults(
    call: Callable[[], Result],
    said: str,
    error: Callable[[str], Exception],
    passing: tuple[type[Exception], ...] = (),
) -> Result:
    """
    What `call`, which is code of a package, returns. Whatever it raises becomes an `error` that
    says `said` and then what was raised, except for errors of collage_dsl and those in `passing`.
    """
    try:
        return call()
    except (Exception, SystemExit) as raised:  # code of somebody else may raise anything
        kind = type(raised)
        is_ours = kind.__module__.split(".")[0] == __name__.split(".")[0]
        if is_ours or isinstance(raised, (MemoryError, *passing)):
            raise
        lines = str(raised).strip().splitlines() or [""]
        raise error(f"{said}: {kind.__name__}: {lines[0]}".rstrip(" :")) from raised


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The message that no `kind` has this name, with the nearest known one and all others."""
    names = list(known)
    close = get_close_matches(name, names, n=1)
    hint = f" (did you mean `{close[0]}`?)" if close else ""
    return f"no {kind} is named `{name}`{hint}; known are {', '.join(f'`{n}`' for n in names)}"
