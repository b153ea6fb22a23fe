"""Find the files that are shipped with the package: the grammar and the specs."""

from pathlib import Path

_PACKAGE = Path(__file__).parent


def folder(name: str) -> Path:
    """
    The folder `name` ("grammars" or "specs"): in the installed package, or beside it in a
    source checkout.
    """
    installed = _PACKAGE / name
    return installed if installed.is_dir() else _PACKAGE.parent / name


def shipped_spec(name: str) -> Path | None:
    """
    The shipped spec file with the name `name`: "native", or "std/activations.collage" as imports
    write it. None if there is none.
    """
    is_std = name.startswith("std/")
    stem = name.removeprefix("std/").removesuffix(".collage") if is_std else name
    path = folder("specs") / ("std" if is_std else "") / f"{stem}.collage"
    return path if "/" not in stem and path.is_file() else None


def shipped_specs() -> tuple[str, ...]:
    """The names of all shipped specs."""
    return tuple(sorted(path.stem for path in folder("specs").glob("*.collage")))
