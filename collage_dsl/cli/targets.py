"""Load the targets named on the command line: `FILE`, `FILE#NAME` or a shipped spec."""

from collections.abc import Sequence
from dataclasses import replace

from collage_dsl.cli.config import import_folders
from collage_dsl.cli.failure import CommandError
from collage_dsl.engine.named import specs_named
from collage_dsl.rules import FusionSpec


def load_targets(
    named: Sequence[str],
    num_cores: int | None = None,
    *,
    allow_extern: bool = False,
    max_candidates: int | None = None,
) -> tuple[FusionSpec, ...]:
    """
    The specs of `FILE`, `FILE#NAME` or the name of a shipped spec, in the order given.

    `num_cores` applies to every target that does not set its own number, and so does
    `max_candidates`. Raises `CommandError`,
    and the errors of `specs_named`.
    """
    specs = [
        spec
        for name in named
        for spec in specs_named(name, folders_for=import_folders, allow_extern=allow_extern)
    ]
    twice = {spec.name for spec in specs if [s.name for s in specs].count(spec.name) > 1}
    if twice:
        raise CommandError(f"two of the targets are named `{min(twice)}`")
    return tuple(_with_bound(_with_cores(spec, num_cores), max_candidates) for spec in specs)


def _with_bound(spec: FusionSpec, max_candidates: int | None) -> FusionSpec:
    if max_candidates is None or spec.limits.max_candidates is not None:
        return spec
    return replace(spec, limits=replace(spec.limits, max_candidates=max_candidates))


def _with_cores(spec: FusionSpec, num_cores: int | None) -> FusionSpec:
    options = spec.target.options
    if num_cores is None or "num_cores" in options:
        return spec
    return replace(spec, target=replace(spec.target, options={**options, "num_cores": num_cores}))
