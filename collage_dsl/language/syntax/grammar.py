"""
Find or make the parser tables of the grammar file.

Making them takes longer than the rest of a short check. An installed package contains them
(hatch_build.py); for a source checkout they are made on first use and kept in the user's cache.
"""

import json
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from collage_dsl.language.syntax.lalr import Tables
from collage_dsl.resources import folder


@cache
def tables(start: str) -> Tables:
    """
    The tables for the start symbol `start`: `file` or `graph_text`.

    Kept tables record what they were made from. They are used only if that has not changed.
    """
    made_from = _made_from()
    carried, cached = _kept(start)
    for path in (carried, cached):
        data = _read(path)
        if data.get("made_from") == made_from:
            return Tables(data)
    data = make(start)
    _write(cached, data)
    return Tables(data)


def make(start: str) -> dict[str, Any]:
    """Make the tables as JSON data, together with what they were made from."""
    from collage_dsl.language.syntax import table_maker  # imports lark; seldom needed

    return table_maker.kept(_grammar(), start)


def _made_from() -> list[str]:
    """The same as `table_maker.made_from`, without importing that module."""
    maker = Path(__file__).with_name("table_maker.py")
    return [_grammar().read_text("utf-8"), maker.read_text("utf-8")]


def _grammar() -> Path:
    return folder("grammars") / "collage.lark"


def _kept(start: str) -> tuple[Path, Path]:
    """The places where tables may be kept: in the package, and in the user's cache."""
    name = f"{start}.tables.json"
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return folder("grammars") / name, Path(home, "collage_dsl", name)


def _read(path: Path) -> dict[str, Any]:
    """The tables in the file; empty if it cannot be read or contains something else."""
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _write(path: Path, data: dict[str, Any]) -> None:
    """Write the tables if possible, atomically: other processes may write them too."""
    from collage_dsl.scratch import replacement  # seldom needed

    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacement(path) as new:
            new.write_text(json.dumps(data, separators=(",", ":")), "utf-8")
