"""The spec files that a command is given."""

from collections.abc import Iterable, Iterator
from pathlib import Path


def spec_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Each of `paths` once, in order; a folder stands for all spec files in it, sorted."""
    return tuple(dict.fromkeys(file for path in paths for file in _below(path)))


def _below(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(path.rglob("*.collage"))
    else:
        yield path
