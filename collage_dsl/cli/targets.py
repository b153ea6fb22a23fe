"""Load the targets named on the command line: `FILE`, `FILE#NAME` or a shipped spec."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from collage_dsl.cli.config import import_folders
from collage_dsl.cli.failure import CommandError
from collage_dsl.cli.stdin import NO_NAME, read_stdin
from collage_dsl.engine.named import UnknownTarget, parts, specs_named, target_of
from collage_dsl.engine.spec_files import load
from collage_dsl.rules import FusionSpec


def load_targets(
    named: Sequence[str],
    num_cores: int | None = None,
    *,
    allow_extern: bool = False,
    max_candidates: int | None = None,
) -> tuple[FusionSpec, ...]:
    """
    The specs of `FILE`, `FILE#NAME` or the name of a shipped spec, in the order given. FILE may
    be `<stdin>`.

    `num_cores` applies to every target that does not set its own number, and so does
    `max_candidates`. Raises `CommandError`,
    and the errors of `specs_named`.
    """
    specs: list[FusionSpec] = []
    given: Mapping[str, FusionSpec] | None = None
    for name in named:
        file, wanted = parts(name)
        if file != NO_NAME:
            specs += specs_named(name, folders_for=import_folders, allow_extern=allow_extern)
            continue
        given = given or specs_on_stdin(allow_extern=allow_extern)
        specs += [target_of(given, wanted, file)] if wanted else given.values()
    twice = {spec.name for spec in specs if [s.name for s in specs].count(spec.name) > 1}
    if twice:
        raise CommandError(f"two of the targets are named `{min(twice)}`")
    return tuple(_with_bound(_with_cores(spec, num_cores), max_candidates) for spec in specs)


def specs_on_stdin(name: str = NO_NAME, *, allow_extern: bool = False) -> Mapping[str, FusionSpec]:
    """
    The specs in the text on standard input, which messages call `name`. Raises `UnknownTarget` if
    there are none, and the errors of `load`.
    """
    source, folders = read_stdin(name), import_folders(Path(name))
    found = load(text=source.text, name=name, search=folders, allow_extern=allow_extern)
    if not found:
        raise UnknownTarget(f"{name} has no target")
    return found


def _with_bound(spec: FusionSpec, max_candidates: int | None) -> FusionSpec:
    if max_candidates is None or spec.limits.max_candidates is not None:
        return spec
    return replace(spec, limits=replace(spec.limits, max_candidates=max_candidates))


def _with_cores(spec: FusionSpec, num_cores: int | None) -> FusionSpec:
    options = spec.target.options
    if num_cores is None or "num_cores" in options:
        return spec
    return replace(spec, target=replace(spec.target, options={**options, "num_cores": num_cores}))
