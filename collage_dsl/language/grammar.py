"""The grammar file, and the parser made from it on first use."""

import os
from functools import cache
from pathlib import Path

from lark import Lark

from collage_dsl.resources import folder


@cache
def lark(start: str) -> Lark:
    """
    The parser of what `start` derives: `file` or `graph_text`. Making its tables takes most
    of the time of a short check, so that each is made when first needed, and kept on disk
    (lark makes them anew where the grammar, the options or lark itself are others).
    """
    return Lark(
        (folder("grammars") / "collage.lark").read_text("utf-8"),
        parser="lalr",
        lexer="contextual",
        start=start,
        propagate_positions=True,
        maybe_placeholders=True,
        cache=_kept(start),
    )


def _kept(start: str) -> str | bool:
    """The file to keep the tables in, False where there can be none."""
    cache_folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "collage_dsl")
    try:
        cache_folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return str(cache_folder / f"grammar-{start}.lark-cache")


@cache
def spellings(start: str) -> dict[str, str]:
    """How each terminal is written, where it is always written the same way."""
    written = {}
    for terminal in lark(start).terminals:
        pattern = terminal.pattern
        if pattern.type == "str":
            written[terminal.name] = pattern.value
        elif "(?!" in pattern.value:  # a keyword
            written[terminal.name] = pattern.value.split("(?!")[0]
    return written
