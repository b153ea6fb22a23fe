"""Spec files as users of the package load them: with the pattern tables of their own code."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from collage_dsl.engine.tables import registered_tables
from collage_dsl.language import load as load_specs
from collage_dsl.language import loading
from collage_dsl.rules import FusionSpec, Pattern


def load(
    path: str | Path | None = None,
    *,
    text: str | None = None,
    name: str | None = None,
    search: Sequence[str | Path] = (),
    allow_extern: bool = False,
) -> Mapping[str, FusionSpec]:
    """
    The fusion specs of the file at `path`, or in `text`, by the names of their targets and
    in file order. `name` is what messages call the text. Files that it imports are looked
    for beside it, in the folders of `search`, and among the specs that ship.

    `import pattern_table "mylib"` finds the patterns that were registered with TVM in this
    process; with `allow_extern`, the module of `"acme.patterns:mylib"` is imported for it.

    Raises RuleError with every error there is, UnreadableError where there is no text.
    """
    tables = registered_tables(allow_extern=allow_extern)
    return load_specs(path, text=text, name=name, search=search, tables=tables)


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
    imports. Else as `load`.
    """
    tables = registered_tables(allow_extern=allow_extern)
    return loading.patterns(path, text=text, name=name, search=search, tables=tables)
