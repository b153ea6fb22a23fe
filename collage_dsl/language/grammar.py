"""
The grammar file, and the tables of the parser made from it.

Making the tables takes most of the time of a short check. An installed package carries them
(hatch_build.py); for a source checkout they are made when first needed, and kept on disk.
"""

import json
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from collage_dsl.language.lalr import Tables
from collage_dsl.resources import folder


@cache
def tables(start: str) -> Tables:
    """
    Those of what `start` derives: `file` or `graph_text`. Kept tables say what they were made
    from, and are used only where that is what they would be made from now.
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
    """The tables anew, as data that JSON can hold, with what they were made from."""
    from collage_dsl.language import table_maker  # which imports lark, and is seldom needed

    return table_maker.kept(_grammar(), start)


def _made_from() -> list[str]:
    """As table_maker says it, without importing that."""
    maker = Path(__file__).with_name("table_maker.py")
    return [_grammar().read_text("utf-8"), maker.read_text("utf-8")]


def _grammar() -> Path:
    return folder("grammars") / "collage.lark"


def _kept(start: str) -> tuple[Path, Path]:
    """Where tables may be: in the package, and in the user's cache."""
    name = f"{start}.tables.json"
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return folder("grammars") / name, Path(home, "collage_dsl", name)


def _read(path: Path) -> dict[str, Any]:
    """What the file holds; nothing where it cannot be read, or is no such file."""
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _write(path: Path, data: dict[str, Any]) -> None:
    """Keep the tables, if that can be done: as a whole, whoever else does so now."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(json.dumps(data, separators=(",", ":")), "utf-8")
        new.replace(path)
