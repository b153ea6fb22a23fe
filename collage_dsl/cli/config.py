"""Read the section `[tool.collage]` of `pyproject.toml`, which configures `collage check`."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collage_dsl.cli.failure import CommandError
from collage_dsl.cli.formats import FAIL_LEVELS
from collage_dsl.language.messages.codes import CODES
from collage_dsl.language.messages.findings import listed
from collage_dsl.language.messages.hints import did_you_mean
from collage_dsl.reading import text_of

_KEYS = ("path", "ignore", "fail-level")


@dataclass(frozen=True, slots=True)
class Config:
    """
    `path` has the folders in which imports are searched, `ignore` the codes of warnings that are
    not shown. Findings of `fail_level` and above make a check fail.
    """

    path: tuple[Path, ...] = ()
    ignore: frozenset[str] = frozenset()
    fail_level: str = "error"


class Configs:
    """The configuration for each file, from the nearest `pyproject.toml` that has the section."""

    def __init__(self) -> None:
        self._by_folder: dict[Path, Config] = {}

    def of(self, file: Path) -> Config:
        return self._in(file.absolute().parent)

    def _in(self, folder: Path) -> Config:
        if folder not in self._by_folder:
            self._by_folder[folder] = self._read(folder)
        return self._by_folder[folder]

    def _read(self, folder: Path) -> Config:
        file = folder / "pyproject.toml"
        if file.is_file() and (said := _section(file)) is not None:
            return _config(file, said)
        return Config() if folder.parent == folder else self._in(folder.parent)


def _section(file: Path) -> Any:
    """The section `[tool.collage]` of `file`; None if it has none."""
    try:
        content = tomllib.loads(text_of(file))
    except (OSError, ValueError, RecursionError) as problem:
        raise CommandError(f"cannot read {file}: {problem}") from None
    tool = content.get("tool")
    return tool.get("collage") if isinstance(tool, dict) else None


def _config(file: Path, said: Any) -> Config:
    if not isinstance(said, dict):
        raise CommandError(f"{file}: [tool.collage] is a table")
    for key in said:
        if key not in _KEYS:
            hint = did_you_mean(key, _KEYS) or f"there are {listed(_KEYS, 'and')}"
            raise CommandError(f"{file}: [tool.collage] has no `{key}`; {hint}")
    level = said.get("fail-level", "error")
    if level not in FAIL_LEVELS:
        raise CommandError(f"{file}: `fail-level` is {listed(FAIL_LEVELS)}")
    folders = tuple(file.parent / each for each in _strings(file, said, "path"))
    codes = frozenset(_strings(file, said, "ignore"))
    for code in sorted(codes):
        _check_ignored(file, code)
    return Config(folders, codes, level)


def _strings(file: Path, said: dict[str, Any], key: str) -> list[str]:
    value = said.get(key, [])
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise CommandError(f"{file}: `{key}` is a list of strings")
    return value


def _check_ignored(file: Path, code: str) -> None:
    if code not in CODES:
        hint = did_you_mean(code, CODES) or "`collage explain` lists all codes"
        raise CommandError(f"{file}: there is no code `{code}`; {hint}")
    if not code.startswith("W"):
        raise CommandError(f"{file}: `{code}` is an error, which cannot be ignored")
