"""Say which files git ignores, and which files patterns in the form of `.gitignore` name."""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from collage_dsl.cli.failure import CommandError
from collage_dsl.reading import cause_of, text_of

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


class GitIgnored:
    """
    What git ignores below the folder `top`: as the `.gitignore` files say of the repository that
    it is in, and its `.git/info/exclude`. They are read once. Those above `top` do not count
    outside a repository, or where `top` itself is ignored, because then it is asked for by name.
    """

    def __init__(self, top: Path) -> None:
        top = absolute(top)
        self._rules = cache(_rules)
        self._root = _repository(top)
        if self._root != top and self.ignores(top, is_folder=True):
            self._root = top

    def ignores(self, path: Path, *, is_folder: bool) -> bool:
        """Whether `path` is ignored, if no folder between it and `top` is."""
        for folder in _up_to(self._root, absolute(path).parent):
            for file in (folder / ".gitignore", folder / ".git" / "info" / "exclude"):
                if rules := self._rules(file):
                    said = rules.check_file(_name(path, folder, is_folder=is_folder)).include
                    if said is not None:  # the nearest rule decides
                        return said
        return False


def absolute(path: Path) -> Path:
    """The absolute path, without `..`: what is above it is its folder and those above that."""
    return Path(os.path.abspath(path))


def names(patterns: tuple[str, ...], folder: Path, path: Path, *, is_folder: bool) -> bool:
    """Whether `patterns`, in the form of a `.gitignore` in `folder`, name `path` in it."""
    if not patterns:
        return False
    return _compiled(patterns).match_file(_name(path, folder, is_folder=is_folder))


def is_pattern(line: str) -> bool:
    """Whether `line` can be a line of a `.gitignore`. Git skips those that cannot."""
    try:
        _compiled((line,))
    except ValueError:
        return False
    return True


@cache
def _compiled(patterns: tuple[str, ...]) -> "GitIgnoreSpec":
    """Raises ValueError."""
    from pathspec import GitIgnoreSpec  # many commands need it not

    return GitIgnoreSpec.from_lines(patterns)


def _repository(folder: Path) -> Path:
    """The top folder of the repository that `folder` is in, or else `folder`."""
    above = (folder, *folder.parents)
    return next((each for each in above if (each / ".git").exists()), folder)


def _up_to(root: Path, folder: Path) -> Iterator[Path]:
    """`folder` and those above it up to `root`."""
    while folder.is_relative_to(root):
        yield folder
        if folder == folder.parent:
            return
        folder = folder.parent


def _name(path: Path, folder: Path, *, is_folder: bool) -> str:
    return f"{absolute(path).relative_to(folder).as_posix()}{'/' * is_folder}"


def _rules(file: Path) -> "GitIgnoreSpec | None":
    if not file.is_file():
        return None
    try:
        lines = tuple(text_of(file).splitlines())
    except (OSError, ValueError) as problem:
        raise CommandError(f"cannot read {file}: {cause_of(problem)}") from None
    return _compiled(tuple(line for line in lines if is_pattern(line)))
