"""
lark's parsers of the grammar file.

Making a parser from the grammar takes longer than the rest of a short check. So lark's tables are
kept in the user's cache, as JSON: lark itself would keep them as a pickle, which can run code.
"""

import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

from collage_dsl.caches import cache_folder
from collage_dsl.language.syntax.placed import Placed, place_trees
from collage_dsl.resources import folder

_OPTIONS = {
    "parser": "lalr",
    "lexer": "contextual",
    "maybe_placeholders": True,
}


@cache
def parser(start: str) -> Lark:
    """
    The parser for the start symbol `start`: `file` or `graph_text`.

    Kept tables record what they were made from. They are used only if that has not changed.
    """
    grammar = (folder("grammars") / "collage.lark").read_text("utf-8")
    made_from = [lark.__version__, _OPTIONS, grammar]
    tables = _read(start)
    if tables.get("made_from") != made_from:
        text = json.dumps({"made_from": made_from, **make(grammar, start)}, separators=(",", ":"))
        _write(start, text)
        tables = _loaded(text)
    tables["data"]["options"]["tree_class"] = Placed
    made = Lark.load(tables)
    place_trees(made)
    _share_rules(made)
    return made


@cache
def spellings(start: str) -> dict[str, str]:
    """The text of each terminal that is always written the same way."""
    written = {}
    for terminal in parser(start).terminals:
        value = terminal.pattern.value
        if terminal.pattern.type == "str":
            written[terminal.name] = value
        elif "(?!" in value:  # a keyword
            written[terminal.name] = value.split("(?!")[0]
    return written


def make(grammar: str, start: str) -> dict[str, Any]:
    """What `Lark.load` reads, as plain data."""
    made: Any = Lark(grammar, start=start, **_OPTIONS)
    data, memo = made.memo_serialize([TerminalDef, Rule])
    return {"data": data, "memo": memo}


def _share_rules(parser: Lark) -> None:
    """
    Let the tables of `parser` have the very rules that its callbacks are found by.

    lark makes equal ones when it loads tables, and compares them with each other at each step.
    """
    rules = {rule: rule for rule in parser._callbacks if isinstance(rule, Rule)}
    for actions in parser.parser.parser._parse_table.states.values():
        for symbol, (action, arg) in actions.items():
            if isinstance(arg, Rule):
                actions[symbol] = action, rules[arg]


def _path(start: str) -> Path:
    return cache_folder() / f"{start}.tables.json"


def _read(start: str) -> dict[str, Any]:
    """The tables that were kept; empty if they cannot be read or are something else."""
    try:
        tables = _loaded(_path(start).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return tables if isinstance(tables, dict) else {}


def _loaded(text: str) -> Any:
    return json.loads(text, object_hook=_with_numbers)


def _with_numbers(data: dict[str, Any]) -> dict[int | str, Any]:
    """`data` with numbers as keys where lark has them: in JSON, all keys are strings."""
    return {int(key) if key.isdecimal() else key: value for key, value in data.items()}


def _write(start: str, text: str) -> None:
    """Write the tables if possible, atomically: other processes may write them too."""
    from collage_dsl.scratch import replacement  # seldom needed

    with suppress(OSError):
        path = _path(start)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacement(path) as new:
            new.write_text(text, "utf-8")
