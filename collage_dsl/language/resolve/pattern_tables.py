"""
Pattern tables: `import pattern_table "cutlass" as cutlass;`.

TVM's own are shipped with the package: `scripts/pattern_tables.py` makes them from an installed
TVM, so that what imports one is checked without. Others are looked up by the caller.
"""

import json
import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from collage_dsl.graph.operators import TVM_VERSION
from collage_dsl.rules import DFPattern, Pattern, Tagged, Union, condition
from collage_dsl.rules import pattern as patterns
from collage_dsl.rules.condition import Holds, Where
from collage_dsl.rules.predicate import PATTERN_TABLE, Predicate

"""The start of the source of a predicate that is the `check` function of a table's pattern."""

ALL = "all"
"""The name of the rule that every table has beside its patterns."""


@dataclass(frozen=True, slots=True)
class Table:
    """
    One table: its patterns by the names they have when imported, and a rule of all of them.

    The rule has them in the order of preference of the backend's partitioner, each as a composite
    with its registered name. `refused` has the patterns that the language cannot express, and why.
    """

    patterns: Mapping[str, Pattern]
    refused: Mapping[str, str]
    all: Union


Tables = Callable[[str], Table]
"""The tables that do not ship, by what an import calls them. Raises `NoTableError`."""


class NoTableError(Exception):
    """There is no pattern table of a name. The message says what to do."""


def unregistered(said: str, *, is_allowed: bool = False) -> NoTableError:
    """
    Why there is no table `mylib`, or `acme.patterns:mylib`, whose module may be imported or not.
    """
    module, name = parted(said)
    if module and is_allowed:
        return NoTableError(f"`{module}` registers no pattern whose name begins with `{name}.`")
    if module:
        return NoTableError(
            f"a table of `{module}` is host code, which is not allowed here; on the command line, "
            f"--allow-extern allows it; in Python, import `{module}` first"
        )
    return NoTableError(
        "for a table of your own, in Python import the module that registers it first; on the "
        f'command line write "package.module:{name}", and allow it with --allow-extern'
    )


def only_shipped(said: str) -> Table:
    """The lookup of a caller that has no other tables."""
    raise unregistered(said)


def parted(said: str) -> tuple[str, str]:
    """The module that registers a table, empty where none is said, and the table's name."""
    module, _, name = said.rpartition(":")
    return module, name


@dataclass(frozen=True, slots=True)
class Registered:
    """
    Where TVM registers a pattern: the module, the name, and the index among patterns of that
    name, from 0.
    """

    module: str
    name: str
    place: int


def table_names() -> tuple[str, ...]:
    return tuple(_tables())


@cache
def table(name: str) -> Table:
    """The shipped table of that name. Raises KeyError where there is none."""
    return table_of(name, _tables()[name])


def table_of(name: str, found: Mapping[str, Any], module: str = "") -> Table:
    """
    The table that `found` has as plain data. The source of its checks names `module`.

    The pattern registered as `cutlass.conv2d_bias` is imported as `conv2d_bias`, and
    `openclml.relax.nn.relu` as `relax_nn_relu`: the common prefix of the table's names is
    removed, and dots and dashes become underscores.
    """
    refused: dict[str, str] = {}
    known: dict[str, Pattern] = {}
    composites = []
    for row in found["patterns"]:
        visible = _identifier(row["name"].removeprefix(found["prefix"] + "."))
        visible = _distinct(visible, {ALL, *known, *refused})
        if "refused" in row:
            refused[visible] = row["refused"]
            continue
        known[visible] = pattern_of(f"{_identifier(name)}_{visible}", row, module)
        composites.append(Tagged(numbered(row["name"])[0], DFPattern(known[visible])))
    if found["prefers"] == "last":  # of what was registered
        composites.reverse()
    return Table(known, refused, Union(tuple(composites)))


def registered(source: str) -> Registered | None:
    """The pattern whose `check` function `source` names; None if no table has it."""
    name = source.removeprefix(PATTERN_TABLE)
    for found in _tables().values():
        if name.startswith(found["prefix"] + ".") and source.startswith(PATTERN_TABLE):
            rows = (row for row in found["patterns"] if row["name"] == name)
            if any(row["check"] for row in rows):
                return Registered(found["module"], *numbered(name))
    return None


@cache
def _tables() -> Mapping[str, Any]:
    path = Path(__file__).with_name(f"pattern-tables-{TVM_VERSION}.json")
    tables: Mapping[str, Any] = json.loads(path.read_text("utf-8"))["tables"]
    return tables


def _identifier(name: str) -> str:
    words = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"_{words}" if words[:1].isdigit() else words


def _distinct(name: str, taken: Container[str]) -> str:
    """`name`, or where it is taken `name_2`."""
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


def numbered(name: str) -> tuple[str, int]:
    """The name in TVM, and which of those of one name it is: of `name-2`, the one at 1."""
    found = re.fullmatch(r"(.*)-([2-9]|[1-9]\d+)", name, re.ASCII | re.DOTALL)
    return (found[1], int(found[2]) - 1) if found else (name, 0)


def pattern_of(name: str, row: Mapping[str, Any], module: str = "") -> Pattern:
    """The pattern of one row of a table."""
    conditions = _read(row["conditions"])
    if row["check"]:
        source = PATTERN_TABLE + (f"{module}:" if module else "") + row["name"]
        predicate = Predicate(f"{name}_check", tuple(row["annotations"]), source)
        holds = Holds(predicate, tuple(row["annotations"].values()))
        conditions = (*conditions, Where(holds))
    parameters, bindings = _read(row["parameters"]), _read(row["bindings"])
    return Pattern(name, parameters, bindings, row["result"], conditions)


def _read(value: Any) -> Any:
    """Build the parts of a pattern from `{"Call": [["nn.relu"], [{"Reference": ["x"]}]]}`."""
    match value:
        case dict():
            ((class_, arguments),) = value.items()
            return _CLASSES[class_](*map(_read, arguments))
        case list():
            return tuple(map(_read, value))
        case _:
            return value


_CLASSES: Mapping[str, Any] = {
    class_.__name__: class_
    for class_ in (
        *(patterns.Anything, patterns.Binding, patterns.Call, patterns.Either, patterns.ListOf),
        *(patterns.FieldOf, patterns.Parameter, patterns.Reference, patterns.TupleOf),
        *(condition.Attr, condition.Compare, condition.Constant, condition.Dtype),
        *(condition.Shape, condition.Where, condition.Within),
    )
}
