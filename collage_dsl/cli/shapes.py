"""Read the options that say what shapes inputs have, and what sizes dimensions have."""

from collections.abc import Mapping, Sequence

from collage_dsl.cli.failure import CommandError
from collage_dsl.graph import Dim

_DIGITS = 12
"""The most digits of a dimension. A tensor with a larger one does not fit in memory."""


def parse_shapes(given: Sequence[str]) -> Mapping[str, tuple[Dim, ...]]:
    """`["x=n,3,224,224", "scalar="]` as a mapping. Raises `CommandError`."""
    shapes: dict[str, tuple[Dim, ...]] = {}
    for text in given:
        name, _, dims = text.rpartition("=")
        words = [word.strip() for word in dims.split(",")] if dims.strip() else []
        if not name or not all(word.isdecimal() or word.isidentifier() for word in words):
            raise CommandError(f"--shape {text}: write it as NAME=1,3,224,224")
        if name in shapes:
            raise CommandError(f"--shape {text}: the shape of `{name}` is given twice")
        _check_digits("--shape", text, words)
        shapes[name] = tuple(int(word) if word.isdecimal() else word for word in words)
    return shapes


def parse_sizes(given: Sequence[str], form: str = "NAME=1,4,8") -> Mapping[str, tuple[int, ...]]:
    """
    `["n=1,4,8", "length=128"]` as a mapping. Raises `CommandError`, which says to write each in the
    `form`.
    """
    sizes: dict[str, tuple[int, ...]] = {}
    for text in given:
        name, _, numbers = text.rpartition("=")
        words = [word.strip() for word in numbers.split(",")]
        if not name or not all(word.isdecimal() for word in words):
            raise CommandError(f"--sizes {text}: write it as {form}")
        if name in sizes:
            raise CommandError(f"--sizes {text}: the sizes of `{name}` are given twice")
        _check_digits("--sizes", text, words)
        sizes[name] = tuple(map(int, words))
    return sizes


def parse_size(given: Sequence[str]) -> Mapping[str, int]:
    """`["n=4", "length=128"]` as a mapping. Raises `CommandError`."""
    sizes = parse_sizes(given, form := "NAME=4")
    for name, numbers in sizes.items():
        if len(numbers) > 1:
            raise CommandError(
                f"--sizes {name}={','.join(map(str, numbers))}: random inputs have one size for "
                f"each name: write it as {form}"
            )
    return {name: number for name, (number,) in sizes.items()}


def _check_digits(option: str, text: str, words: Sequence[str]) -> None:
    if any(word.isdecimal() and len(word) > _DIGITS for word in words):
        raise CommandError(f"{option} {text}: no dimension has more than {_DIGITS} digits")
