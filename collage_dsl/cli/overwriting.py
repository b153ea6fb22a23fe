"""Refuse to write a file that the same command reads."""

import os
from collections.abc import Iterator
from pathlib import Path

import click

from collage_dsl.cli.failure import CommandError
from collage_dsl.cli.parameters import Written


def check_outputs(context: click.Context) -> None:
    """Raise `CommandError` if a path to write is that of a file which the command is given."""
    params, values = context.command.params, context.params
    given = [path for each in params for path in _read(each, values.get(each.name or ""))]
    for each in params:
        written = values.get(each.name or "")
        if isinstance(each.type, Written) and isinstance(written, Path):
            _check(written, given)


def _check(written: Path, given: list[Path]) -> None:
    for path in given:
        if written.exists() and path.exists() and os.path.samefile(written, path):
            raise CommandError(
                f"cannot write {written}: this command reads it; name another file to write"
            )


def _read(param: click.Parameter, value: object) -> Iterator[Path]:
    """The files that the command reads because of one of its arguments or options."""
    if value is None and param.name in ("store", "records"):
        yield _default(param.name)
    elif param.name == "output":  # the folder that `collage compile` writes
        return
    elif isinstance(param.type, click.Path) or param.name in ("pattern", "targets"):
        for each in value if isinstance(value, tuple) else (value,):
            if each is not None:
                yield Path(each)
                yield Path(str(each).partition("#")[0])  # a pattern or target of the file


def _default(name: str) -> Path:
    from collage_dsl.cost.records import records_path
    from collage_dsl.cost.store import default_store_path

    return default_store_path() if name == "store" else records_path()
