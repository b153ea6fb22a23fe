"""Targets as they are named on the command line."""

from collections.abc import Sequence
from dataclasses import replace

from collage_dsl.cli.failure import CommandError
from collage_dsl.rules import FusionSpec
from collage_dsl.targets.named import specs_named


def load_targets(named: Sequence[str], num_cores: int | None = None) -> tuple[FusionSpec, ...]:
    """
    The specs of `FILE`, `FILE#NAME` or the name of a shipped spec, in the order given.

    `num_cores` holds for every target that does not say itself how many it may use. Raises
    `CommandError`, and what `specs_named` raises.
    """
    specs = [spec for name in named for spec in specs_named(name)]
    twice = {spec.name for spec in specs if [s.name for s in specs].count(spec.name) > 1}
    if twice:
        raise CommandError(f"two of the targets are named `{min(twice)}`")
    return tuple(_with_cores(spec, num_cores) for spec in specs)


def _with_cores(spec: FusionSpec, num_cores: int | None) -> FusionSpec:
    options = spec.target.options
    if num_cores is None or "num_cores" in options:
        return spec
    return replace(spec, target=replace(spec.target, options={**options, "num_cores": num_cores}))
