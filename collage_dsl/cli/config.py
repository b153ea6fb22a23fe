"""Read the section `[tool.collage]` of `pyproject.toml`, which configures the commands on files."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from collage_dsl.cli.failure import CommandError
from collage_dsl.cli.formats import FAIL_LEVELS
from collage_dsl.cli.ignored import absolute, is_pattern, names
from collage_dsl.language.messages.codes import CODES
from collage_dsl.language.messages.findings import listed
from collage_dsl.language.messages.hints import did_you_mean
from collage_dsl.reading import cause_of, text_of

KEYS = (
    *("path", "select", "ignore", "per-file-ignores", "fail-level", "exclude"),
    "respect-gitignore",
)

ALL = ("W",)
"""Selects all warnings."""


@dataclass(frozen=True, slots=True)
class Config:
    """
    `path` has the folders in which imports are searched. A warning is shown if it is selected and
    not ignored; `select` and `ignore` have codes or their beginnings, such as `W04`, and the
    longer one counts. Findings of `fail_level` and above make a check fail. `exclude` and the keys
    of `per_file_ignores` are patterns of files, in the form of a `.gitignore` in `folder`.
    """

    folder: Path = Path("/")
    path: tuple[Path, ...] = ()
    select: tuple[str, ...] = ALL
    ignore: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fail_level: str = "error"
    exclude: tuple[str, ...] = ()
    respects_gitignore: bool = True

    def excludes(self, path: Path, *, is_folder: bool) -> bool:
        return names(self.exclude, self.folder, path, is_folder=is_folder)

    def shows(self, code: str, file: Path) -> bool:
        """Whether a finding with this code is shown for `file`. Each error is."""
        if not code.startswith("W"):
            return True
        if _longest(self.select, code) <= _longest(self.ignore, code):
            return False
        return not any(
            _longest(codes, code) and names((pattern,), self.folder, file, is_folder=False)
            for pattern, codes in self.per_file_ignores.items()
        )

    def ignored(self, file: Path) -> frozenset[str]:
        """The codes that are not shown for `file`."""
        return frozenset(code for code in CODES if not self.shows(code, file))

    def instead(self, select: tuple[str, ...], ignore: tuple[str, ...]) -> "Config":
        """The same with these codes in place of its own, where some are given."""
        return replace(self, select=select or self.select, ignore=ignore or self.ignore)


class Configs:
    """The configuration for each file, from the nearest `pyproject.toml` that has the section."""

    def __init__(self) -> None:
        self._by_folder: dict[Path, Config] = {}

    def of(self, file: Path) -> Config:
        return self._in(absolute(file).parent)

    def _in(self, folder: Path) -> Config:
        if folder not in self._by_folder:
            self._by_folder[folder] = self._read(folder)
        return self._by_folder[folder]

    def _read(self, folder: Path) -> Config:
        file = folder / "pyproject.toml"
        if file.is_file() and (said := _section(file)) is not None:
            return _config(file, said)
        return Config() if folder.parent == folder else self._in(folder.parent)


def import_folders(file: Path) -> tuple[Path, ...]:
    """The folders in which the configuration of a spec file lets its imports be searched."""
    return Configs().of(file).path


def checked_codes(place: object, said: Iterable[str]) -> tuple[str, ...]:
    """Codes of warnings or their beginnings, which `place` names. Raises CommandError."""
    codes = tuple(said)
    for code in codes:
        if not any(known.startswith(code) for known in CODES) or not code:
            hint = did_you_mean(code, CODES) or "`collage explain` lists all codes"
            raise CommandError(f"{place}: there is no code `{code}`; {hint}")
        if not code.startswith("W"):
            raise CommandError(f"{place}: `{code}` is an error, and errors are always shown")
    return codes


def _longest(beginnings: Iterable[str], code: str) -> int:
    """The length of the longest of `beginnings` that `code` has; 0 if it has none."""
    return max((len(each) for each in beginnings if code.startswith(each)), default=0)


def _section(file: Path) -> Any:
    """The section `[tool.collage]` of `file`; None if it has none."""
    try:
        return _section_of(text_of(file))
    except (OSError, ValueError, RecursionError) as problem:
        raise CommandError(f"cannot read {file}: {cause_of(problem)}") from None


@lru_cache(maxsize=32)
def _section_of(text: str) -> Any:
    """A language server asks for the configuration of each file of a workspace, again and again."""
    tool = tomllib.loads(text).get("tool")
    return tool.get("collage") if isinstance(tool, dict) else None


def _config(file: Path, said: Any) -> Config:
    if not isinstance(said, dict):
        raise CommandError(f"{file}: [tool.collage] is a table")
    for key in said:
        if key not in KEYS:
            hint = did_you_mean(key, KEYS) or f"there are {listed(KEYS, 'and')}"
            raise CommandError(f"{file}: [tool.collage] has no `{key}`; {hint}")
    level = said.get("fail-level", "error")
    if level not in FAIL_LEVELS:
        raise CommandError(f"{file}: `fail-level` is {listed(FAIL_LEVELS)}")
    respects = said.get("respect-gitignore", True)
    if not isinstance(respects, bool):
        raise CommandError(f"{file}: `respect-gitignore` is true or false")
    select = _strings(file, said, "select")
    return Config(
        folder=file.parent,
        path=_folders(file, _strings(file, said, "path")),
        select=checked_codes(file, select) if "select" in said else ALL,
        ignore=checked_codes(file, _strings(file, said, "ignore")),
        per_file_ignores=_per_file(file, said.get("per-file-ignores", {})),
        fail_level=level,
        exclude=_patterns(file, _strings(file, said, "exclude")),
        respects_gitignore=respects,
    )


def _folders(file: Path, said: list[str]) -> tuple[Path, ...]:
    for folder in said:
        if "\0" in folder or not (file.parent / folder).is_dir():
            raise CommandError(f"{file}: `path` names folders, but `{folder}` is none")
    return tuple(file.parent / folder for folder in said)


def _per_file(file: Path, said: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(said, dict):
        raise CommandError(f"{file}: `per-file-ignores` is a table of codes by file")
    _patterns(file, list(said))
    return {pattern: checked_codes(file, _strings(file, said, pattern)) for pattern in said}


def _patterns(file: Path, said: list[str]) -> tuple[str, ...]:
    for pattern in said:
        if not is_pattern(pattern):
            raise CommandError(f"{file}: `{pattern}` is no pattern of files")
    return tuple(said)


def _strings(file: Path, said: dict[str, Any], key: str) -> list[str]:
    value = said.get(key, [])
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise CommandError(f"{file}: `{key}` is a list of strings")
    return value
