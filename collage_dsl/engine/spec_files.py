"""`collage.load` and `collage.patterns`: load spec files, with pattern tables of users' code."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from collage_dsl.argument_types import with_checked_types
from collage_dsl.engine.tables import registered_tables
from collage_dsl.language import load as load_specs
from collage_dsl.language import loading
from collage_dsl.rules import FusionSpec, Pattern


@with_checked_types()
def load(
    path: str | Path | None = None,
    *,
    text: str | None = None,
    name: str | None = None,
    search: Sequence[str | Path] = (),
    allow_extern: bool = False,
) -> Mapping[str, FusionSpec]:
    """
    The fusion specs of the file at `path`, or in `text`, by the names of their targets and in file
    order. `name` is the name of the text in messages. Imported files are searched beside it, in
    the folders of `search`, and among the shipped specs.

    `import pattern_table "mylib"` finds the patterns that were registered with TVM in this
    process; with `allow_extern`, the module of `"acme.patterns:mylib"` is imported for it.

    Raises RuleError with all errors, and UnreadableError if there is no text.
    """
    tables = registered_tables(allow_extern=allow_extern)
    return load_specs(path, text=text, name=name, search=search, tables=tables)


@with_checked_types()
def patterns(
    path: str | Path | None = None,
    *,
    text: str | None = None,
    name: str | None = None,
    search: Sequence[str | Path] = (),
    allow_extern: bool = False,
) -> Mapping[str, Pattern]:
    """
    The patterns of the file at `path`, or in `text`, by name: its own, and those that it
    imports. Everything else is as in `load`.
    """
    tables = registered_tables(allow_extern=allow_extern)
    return loading.patterns(path, text=text, name=name, search=search, tables=tables)
