"""Definitions from files and pattern tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from collage_dsl.builder.rules import rule_of
from collage_dsl.builder.terms import checked_types
from collage_dsl.builder.values import Operators
from collage_dsl.engine.tables import registered_tables
from collage_dsl.graph import Kind
from collage_dsl.language.loading import definitions
from collage_dsl.language.resolve import pattern_tables
from collage_dsl.language.resolve.rule_names import CheckedRule
from collage_dsl.rules import FusionRule, Pattern
from collage_dsl.rules.predicate import Predicate

Definition = Pattern | Operators | Predicate | FusionRule
"""What a name in a file stands for; a class of operators can be called."""


@checked_types
def imported(file: str | Path, *, search: Sequence[str | Path] = ()) -> Mapping[str, Definition]:
    """
    The definitions of a spec file by name: `imported("std/activations.collage")["swish"]`.

    If there is no such file, it is searched like an import, in the folders of `search` and among
    the shipped specs. Raises RuleError if it is not found or has errors. Rules with parameters
    are left out: in Python, write a function instead.
    """
    found = definitions(file, search, tables=registered_tables()).items()
    return {name: _defined(definition) for name, definition in found}


@checked_types
def pattern_table(name: str) -> Mapping[str, Definition]:
    """
    The patterns of one of TVM's tables, or of one that is registered in this process, by name, and
    under `all` the rule of all of them.
    """
    shipped = name in pattern_tables.table_names()
    try:
        table = pattern_tables.table(name) if shipped else registered_tables()(name)
    except pattern_tables.NoTableError as problem:
        raise ValueError(f"there is no pattern table `{name}`: {problem}") from None
    return {**table.patterns, pattern_tables.ALL: table.all}


def _defined(definition: Any) -> Definition:
    match definition:
        case CheckedRule(rule):
            assert rule is not None, "a file without errors has whole rules"
            return rule_of(rule)
        case tuple():
            return Operators(
                tuple(each if isinstance(each, Kind) else each.name for each in definition)
            )
        case Pattern() | Predicate():
            return definition
        case _:
            raise AssertionError(definition)
