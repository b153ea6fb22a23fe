"""Find and read the spec files that a command is given: files, folders, and standard input."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from collage_dsl.cli.config import Configs
from collage_dsl.cli.failure import CommandError
from collage_dsl.cli.ignored import GitIgnored, absolute
from collage_dsl.cli.stdin import NO_NAME, STDIN, read_stdin
from collage_dsl.language import read
from collage_dsl.resources import shipped_spec
from collage_dsl.source import NEVER_SEARCHED, Source


@dataclass(frozen=True, slots=True)
class Given:
    """
    The paths on the command line. `-` is standard input, which messages call `stdin_name`. A file
    that is given by its name is taken though it is excluded, unless `force_exclude` is set. With
    `reads_only`, the name of a shipped spec stands for its file.
    """

    paths: Sequence[Path]
    stdin_name: str = NO_NAME
    force_exclude: bool = False
    reads_only: bool = False

    def __post_init__(self) -> None:
        if self.stdin_name != NO_NAME and STDIN not in self.paths:
            raise CommandError("--stdin-filename names standard input: add `-` to FILES")

    def files(self, configs: Configs) -> tuple[Path, ...]:
        """
        Each file once, in order. A folder stands for the spec files in it, sorted, without those
        that git ignores or that the configuration excludes. Raises CommandError if there are none:
        a wrong path must not look like a file without mistakes.
        """
        return tuple(dict.fromkeys(f for path in self.paths for f in self._below(path, configs)))

    def named(self, file: Path) -> Path:
        """The path that counts for the configuration and the imports of `file`."""
        return Path(self.stdin_name) if file == STDIN else file

    def read(self, file: Path) -> Source:
        """The text of `file`. Raises UnreadableError."""
        return read_stdin(self.stdin_name) if file == STDIN else read(file)

    def _below(self, path: Path, configs: Configs) -> Iterator[Path]:
        if not path.is_dir():
            if not (
                self.force_exclude and _is_excluded(self.named(path), configs, is_folder=False)
            ):
                yield self._shipped(path) or path
            return
        walk = _Walk(path, configs, force_exclude=self.force_exclude)
        found = sorted(walk.files())
        if not found and not (walk.left_out and self.force_exclude):
            but = " except what .gitignore or `exclude` names" if walk.left_out else ""
            raise CommandError(f"there is no `.collage` file in {path}{but}")
        yield from found

    def _shipped(self, path: Path) -> Path | None:
        """The shipped spec that `path` names; None for a file of the user."""
        return shipped_spec(str(path)) if self.reads_only and not path.exists() else None


class _Walk:
    """
    A walk through the folder `top`; `left_out` says whether something there was ignored. If `top`
    itself is excluded, but is asked for by name, the configuration excludes nothing in it.
    """

    def __init__(self, top: Path, configs: Configs, *, force_exclude: bool) -> None:
        self.top = top
        self.configs = configs
        self.ignored = GitIgnored(top)
        self.excludes = force_exclude or not _is_excluded(top, configs, is_folder=True)
        self.left_out = False

    def files(self) -> Iterator[Path]:
        for folder, folders, files in os.walk(self.top):
            here = Path(folder)
            folders[:] = [name for name in folders if self._is_wanted(here / name, is_folder=True)]
            for name in files:
                file = here / name
                if file.suffix == ".collage" and self._is_wanted(file, is_folder=False):
                    yield file

    def _is_wanted(self, path: Path, *, is_folder: bool) -> bool:
        if is_folder and path.name in NEVER_SEARCHED:
            return False
        config = self.configs.of(path)
        unwanted = (self.excludes and config.excludes(path, is_folder=is_folder)) or (
            config.respects_gitignore and self.ignored.ignores(path, is_folder=is_folder)
        )
        self.left_out |= unwanted
        return not unwanted


def _is_excluded(path: Path, configs: Configs, *, is_folder: bool) -> bool:
    """Whether the configuration excludes a file or folder, or a folder that it is in."""
    at = absolute(path)
    if configs.of(at).excludes(at, is_folder=is_folder):
        return True
    return any(configs.of(each).excludes(each, is_folder=True) for each in at.parents)
