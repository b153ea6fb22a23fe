"""Find specs by the names that users write: a file, a target of a file, or a shipped spec."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from collage_dsl.engine.spec_files import load
from collage_dsl.reading import other_than_file
from collage_dsl.resources import shipped_spec, shipped_specs
from collage_dsl.rules import FusionSpec


class UnknownTarget(Exception):  # noqa: N818, reads as what it says
    """There is no file, target or shipped spec with the name that a user writes."""


def _no_folders(file: Path) -> Sequence[Path]:
    return ()


def specs_named(
    named: str,
    *,
    folders_for: Callable[[Path], Sequence[Path]] = _no_folders,
    allow_extern: bool = False,
) -> tuple[FusionSpec, ...]:
    """
    The specs of `FILE`, or the one of `FILE#TARGET`. FILE is a path, or else the name of a shipped
    spec: `onnxruntime#onnxruntime`. What it imports is searched in the folders for it too. Raises
    `UnknownTarget`, and the errors of `load`.
    """
    file, wanted = parts(named)
    if not file:
        raise UnknownTarget(f"target '{named}' names no file: write FILE or FILE#NAME")
    path = spec_file(file)
    if path == shipped_spec(file):
        specs = _shipped(path)
    else:
        specs = load(path, search=folders_for(path), allow_extern=allow_extern)
    if not specs:
        raise UnknownTarget(f"{file} has no target")
    return (target_of(specs, wanted, file),) if wanted else tuple(specs.values())


@cache
def _shipped(path: Path) -> Mapping[str, FusionSpec]:
    """The specs of a file that ships. It stays as it is while a program runs, and is read once."""
    return load(path)


def target_of(specs: Mapping[str, FusionSpec], name: str, file: str) -> FusionSpec:
    """The spec `name` among those of a file. Raises `UnknownTarget`."""
    if name not in specs:
        close = get_close_matches(name, specs, 1)
        hint = f"did you mean `{close[0]}`?" if close else f"it has {', '.join(specs)}"
        raise UnknownTarget(f"{file} has no target `{name}`; {hint}")
    return specs[name]


def parts(named: str) -> tuple[str, str]:
    """`FILE#NAME` as its two parts. The second is empty without `#`, or if such a file exists."""
    with suppress(OSError):  # too long for a path
        if Path(named).is_file():
            return named, ""
    file, sign, name = named.rpartition("#")
    return (file, name) if sign else (named, "")


def spec_file(file: str) -> Path:
    """The file with that path, or else the shipped spec of that name. Raises `UnknownTarget`."""
    with suppress(OSError):  # too long for a path
        if Path(file).is_file():
            return Path(file)
        if shipped := shipped_spec(file):
            return shipped
        if found := other_than_file(Path(file)):
            raise UnknownTarget(f"cannot read {file}: {found}")
    names = ", ".join(shipped_specs())
    raise UnknownTarget(f"there is no spec file {file}; the specs that ship are {names}")
