"""Load the targets named on the command line: `FILE`, `FILE#NAME` or a shipped spec."""

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from collage_dsl.cli.failure import CommandError
from collage_dsl.engine.spec_files import load
from collage_dsl.resources import shipped_spec, shipped_specs
from collage_dsl.rules import FusionSpec


def load_targets(
    named: Sequence[str], num_cores: int | None = None, *, allow_extern: bool = False
) -> tuple[FusionSpec, ...]:
    """
    The specs of `FILE`, `FILE#NAME` or the name of a shipped spec, in the order given.

    `num_cores` applies to every target that does not set its own number. Raises `CommandError`,
    and the errors of `load`.
    """
    specs = [spec for name in named for spec in _load(name, allow_extern)]
    twice = {spec.name for spec in specs if [s.name for s in specs].count(spec.name) > 1}
    if twice:
        raise CommandError(f"two of the targets are named `{min(twice)}`")
    return tuple(_with_cores(spec, num_cores) for spec in specs)


def _load(named: str, allow_extern: bool) -> tuple[FusionSpec, ...]:
    file, _, wanted = named.partition("#")
    if not file:
        raise CommandError(f"--target '{named}' names no file: write FILE or FILE#NAME")
    specs = load(spec_path(file), allow_extern=allow_extern)
    if not wanted:
        if not specs:
            raise CommandError(f"{file} has no target")
        return tuple(specs.values())
    if wanted not in specs:
        raise CommandError(f"{file} has no target `{wanted}`{_hint(wanted, list(specs))}")
    return (specs[wanted],)


def spec_path(file: str) -> Path:
    """The path of `file`, or else of the shipped spec of that name. Raises CommandError."""
    path = Path(file)
    shipped = shipped_spec(file)
    if path.is_file():
        return path
    if shipped:
        return shipped
    if path.exists():
        raise CommandError(f"{file} is not a file")
    names = ", ".join(shipped_specs())
    raise CommandError(f"there is no spec file {file}; the specs that ship are {names}")


def _hint(wanted: str, names: list[str]) -> str:
    close = get_close_matches(wanted, names, 1)
    return f"; did you mean `{close[0]}`?" if close else f"; it has {', '.join(names)}"


def _with_cores(spec: FusionSpec, num_cores: int | None) -> FusionSpec:
    options = spec.target.options
    if num_cores is None or "num_cores" in options:
        return spec
    return replace(spec, target=replace(spec.target, options={**options, "num_cores": num_cores}))
