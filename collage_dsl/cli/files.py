"""Find the spec files in the paths and folders that a command is given."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from collage_dsl.cli.failure import CommandError


def spec_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    """
    Each of `paths` once, in order. A folder stands for all spec files in it, sorted. Raises
    CommandError if there are none: a wrong path must not look like a file without mistakes.
    """
    return tuple(dict.fromkeys(file for path in paths for file in _below(path)))


def _below(path: Path) -> Iterator[Path]:
    if path.is_dir():
        found = sorted(path.rglob("*.collage"))
        if not found:
            raise CommandError(f"there is no `.collage` file in {path}")
        yield from found
    else:
        yield path
