"""Read the pattern tables that users' code registers in `tvm.relax.backend.pattern_registry`."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from tvm.relax.backend.pattern_registry import get_patterns_with_prefix

from collage_dsl.diagnostics import RuleError
from collage_dsl.graph import Toolchain
from collage_dsl.language import load, to_text
from collage_dsl.language.resolve.pattern_tables import (
    NoTableError,
    Table,
    numbered,
    parted,
    pattern_of,
    table_of,
    unregistered,
)
from collage_dsl.language.resolve.predicates import can_come_from, predicates_of
from collage_dsl.rules import DFPattern, FusionSpec
from collage_dsl.targets.translation import rows


def registered_table(said: str, *, allow_extern: bool = False) -> Table:
    """
    The table of the patterns whose names begin with `mylib.`, for `mylib`, or for
    `acme.patterns:mylib`, which imports that module if `allow_extern` allows it.

    The rule `all` has them in TVM's order of preference: the last registered comes first. Raises
    NoTableError if there are none, or none that the language can express.
    """
    module, name = parted(said)
    if module and allow_extern:
        _import(module)
    found = _registered(f"{name}.")
    if not found:
        raise unregistered(said, is_allowed=allow_extern)
    checked = [_checked(row, module) for row in rows(found)]
    table = table_of(name, {"prefix": name, "prefers": "last", "patterns": checked}, module)
    if not table.patterns:
        pattern, reason = next(iter(table.refused.items()))
        message = f"the language can say none of its patterns; of `{pattern}`: {reason}"
        raise NoTableError(message)
    return table


def is_registered(name: str) -> bool:
    """Whether the name of some registered pattern begins with `name` and a dot."""
    return bool(_registered(f"{name}."))


def registered_check(said: str, *, allow_extern: bool = False) -> Any:
    """
    The check of the pattern `mylib.conv`, or `acme.patterns:mylib.conv`; None if it has no check.
    """
    module, name = parted(said)
    if module and allow_extern:
        _import(module)
    for plain, place in ((name, 0), numbered(name)):
        named = [pattern for pattern in _registered(plain) if pattern.name == plain]
        if place < len(named) and named[place].check is not None:
            return named[place].check
    return None


def _import(module: str) -> None:
    try:
        import_module(module)
    except Exception as error:  # a module may raise anything when it is imported
        said = f"{type(error).__name__}: {error}"
        raise NoTableError(f"`{module}` cannot be imported: {said}") from error


def _registered(prefix: str) -> Sequence[Any]:
    """The patterns whose names begin with `prefix`, in the order in which they were registered."""
    return list(reversed(list(get_patterns_with_prefix(prefix))))


def _checked(row: dict[str, Any], module: str) -> dict[str, Any]:
    """The row of a pattern. A pattern that a file could not express is refused."""
    if "refused" in row:
        return row
    reason = next(_problems(row, module), "")
    return {**row, "refused": reason} if reason else row


def _problems(row: dict[str, Any], module: str) -> Iterator[str]:
    pattern = pattern_of("translated", row, module)
    if not all(can_come_from(predicate.source) for predicate in predicates_of(pattern)):
        yield "no file can say its name, by which its check is found"
    spec = FusionSpec(Toolchain("translated"), DFPattern(pattern))
    try:
        load(text=to_text(spec), name=row["name"])
    except RuleError as problem:
        yield from (each.message for each in problem.diagnostics)
    except ValueError as problem:
        yield str(problem)
