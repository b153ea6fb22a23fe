"""
Read TVM's pattern tables as shipped: `import pattern_table "cutlass" as cutlass;`.

`scripts/pattern_tables.py` makes them from an installed TVM, so that files which import one can be
checked without TVM.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from collage_dsl.graph.operators import TVM_VERSION
from collage_dsl.rules import DFPattern, Pattern, Tagged, Union, condition
from collage_dsl.rules import pattern as patterns
from collage_dsl.rules.condition import Holds, Where
from collage_dsl.rules.predicate import Predicate

SOURCE = "pattern_table:"
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
    """
    The table of that name. Raises KeyError if there is none.

    The pattern registered as `cutlass.conv2d_bias` is imported as `conv2d_bias`, and
    `openclml.relax.nn.relu` as `relax_nn_relu`: the common prefix of the table's names is
    removed, and dots and dashes become underscores.
    """
    found = _tables()[name]
    refused: dict[str, str] = {}
    known: dict[str, Pattern] = {}
    composites = []
    for row in found["patterns"]:
        visible = _identifier(row["name"].removeprefix(found["prefix"] + "."))
        if "refused" in row:
            refused[visible] = row["refused"]
            continue
        known[visible] = _pattern(f"{name}_{visible}", row)
        composites.append(Tagged(_registered(row["name"])[0], DFPattern(known[visible])))
    if found["prefers"] == "last":  # the last registered comes first
        composites.reverse()
    return Table(known, refused, Union(tuple(composites)))


def registered(source: str) -> Registered | None:
    """The pattern whose `check` function `source` names; None if no table has it."""
    name = source.removeprefix(SOURCE)
    for found in _tables().values():
        if name.startswith(found["prefix"] + ".") and source.startswith(SOURCE):
            rows = (row for row in found["patterns"] if row["name"] == name)
            if any(row["check"] for row in rows):
                return Registered(found["module"], *_registered(name))
    return None


@cache
def _tables() -> Mapping[str, Any]:
    path = Path(__file__).with_name(f"pattern-tables-{TVM_VERSION}.json")
    tables: Mapping[str, Any] = json.loads(path.read_text("utf-8"))["tables"]
    return tables


def _identifier(name: str) -> str:
    return name.replace(".", "_").replace("-", "_")


def _registered(name: str) -> tuple[str, int]:
    """The name in TVM and the index among patterns of that name: `name-2` has index 1."""
    plain, _, number = name.partition("-")
    return plain, int(number or 1) - 1


def _pattern(name: str, row: Mapping[str, Any]) -> Pattern:
    conditions = _read(row["conditions"])
    if row["check"]:
        predicate = Predicate(f"{name}_check", tuple(row["annotations"]), SOURCE + row["name"])
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
        *(patterns.Anything, patterns.Binding, patterns.Call, patterns.Either),
        *(patterns.FieldOf, patterns.Parameter, patterns.Reference, patterns.TupleOf),
        *(condition.Attr, condition.Compare, condition.Constant, condition.Dtype),
        *(condition.Shape, condition.Where, condition.Within),
    )
}
