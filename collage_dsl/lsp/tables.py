"""Describe TVM's pattern tables, which can be imported but are not files."""

from collections.abc import Mapping

from collage_dsl.graph import Toolchain
from collage_dsl.language import to_text
from collage_dsl.language.resolve.pattern_tables import ALL, Table, table, table_names
from collage_dsl.language.syntax import ast
from collage_dsl.rules import DFPattern, FusionSpec
from collage_dsl.rules.predicate import PATTERN_TABLE


def import_path(written: ast.Import) -> str:
    """A key for the imported file or table; the key of a table is not a possible file name."""
    return f"{PATTERN_TABLE}{written.path}" if written.is_table else written.path


def table_at(path: str) -> Table | None:
    """The table of a `path` that `import_path` made; None for a file."""
    name = path.removeprefix(PATTERN_TABLE)
    return table(name) if path.startswith(PATTERN_TABLE) and name in table_names() else None


def sorts(path: str) -> Mapping[str, str]:
    """The sort of each name in a table; empty for a file."""
    found = table_at(path)
    return {} if found is None else {**dict.fromkeys(found.patterns, "pattern"), ALL: "rule"}


def about(path: str, name: str) -> str:
    """The hover text of a table, or of a name in one; empty if there is none."""
    found = table_at(path)
    if found is None:
        return ""
    said = f"TVM's pattern table `{path.removeprefix(PATTERN_TABLE)}`"
    if name in found.patterns:
        return f"```collage\n{_text(found, name)}\n```\n\nFrom {said}."
    if name in found.refused:
        return f"{said} has it, but {found.refused[name]}."
    if name == ALL:
        return f"Every pattern of {said}, each as a composite of its registered name."
    return "" if name else f"{said} defines `{ALL}`, {', '.join(map(_code, found.patterns))}."


def _text(found: Table, name: str) -> str:
    """The text of the pattern `name`, as in a file."""
    pattern = found.patterns[name]
    text = to_text(FusionSpec(Toolchain("any"), DFPattern(pattern)))
    return next(part for part in text.split("\n\n") if part.startswith("pattern "))


def _code(name: str) -> str:
    return f"`{name}`"
