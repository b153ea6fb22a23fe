"""Refuse to write a file that the same command reads."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from collage_dsl.cli.failure import CommandError
from collage_dsl.cli.parameters import InSpec, Written
from collage_dsl.reading import real_path


def check_outputs(context: click.Context) -> None:
    """Raise `CommandError` if a path to write is that of a file which the command is given."""
    params, values = context.command.params, context.params
    given = [path for each in params for path in _read(each, values)]
    for each in params:
        written = values.get(each.name or "")
        if isinstance(written, Path) and os.path.exists(written):
            if isinstance(each.type, Written):
                _check(written, given)
            elif each.name == _FOLDER:
                _check_folder(written, given)


_FOLDER = "output"
"""Where it is not a file: the option with the folder that `collage compile` replaces."""


def _check(written: Path, given: list[Path]) -> None:
    if any(_is_same(written, path) for path in (*given, *_named_in(given, written))):
        raise CommandError(
            f"cannot write {written}: this command reads it; name another file to write"
        )


def _check_folder(written: Path, given: list[Path]) -> None:
    for path in filter(os.path.exists, given):
        if any(_is_same(written, each) for each in real_path(path).parents):
            raise CommandError(
                f"cannot write {written}: this command reads {path}; name another folder to write"
            )


def _is_same(one: Path, other: Path) -> bool:
    return os.path.exists(other) and os.path.samefile(one, other)


def _named_in(given: list[Path], written: Path) -> Iterator[Path]:
    """The files that the given ones name: specs that others import, and the data of models."""
    for path in filter(os.path.isfile, given):
        if written.suffix == _SPEC:
            from collage_dsl.language.loading import imported_files

            yield from imported_files(path)
        elif path.suffix == _MODEL and real_path(written).is_relative_to(real_path(path).parent):
            from collage_dsl.frontend.onnx_data import external_files

            yield from external_files(path)


_SPEC, _MODEL = ".collage", ".onnx"


def _read(param: click.Parameter, values: Mapping[str, Any]) -> Iterator[Path]:
    """The files that the command reads because of one of its arguments or options."""
    value = values.get(param.name or "")
    if value is None and param.name in ("store", "records"):
        yield _default(param.name, values.get("store"))
    elif param.name == _FOLDER:
        return
    elif isinstance(param.type, click.Path | InSpec):
        for each in value if isinstance(value, tuple) else (value,):
            if each is not None:
                yield Path(each)
                yield Path(str(each).partition("#")[0])  # a pattern or target of the file


def _default(name: str, store: Path | None) -> Path:
    from collage_dsl.cost.records import records_path
    from collage_dsl.cost.store import default_store_path

    return default_store_path() if name == "store" else records_path(store)
