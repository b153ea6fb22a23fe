"""Find the specs of everything that users give as targets, and the targets of each spec."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from collage_dsl.backends.base import Backend
from collage_dsl.engine.devices import DefaultDevice
from collage_dsl.engine.named import specs_named
from collage_dsl.engine.spec_files import load
from collage_dsl.graph import Device, Graph, OpSet
from collage_dsl.rules import FusionSpec
from collage_dsl.rules.spec import Refusal
from collage_dsl.targets.attach import TargetError, refuse_old_string
from collage_dsl.targets.gather import gather_all
from collage_dsl.targets.refine import Options, may_run, options_of_target


@dataclass(frozen=True)
class Aimed:
    """A spec, and the targets that have it. Several targets may share one spec."""

    spec: FusionSpec
    targets: tuple[Any, ...]

    @cached_property
    def options(self) -> tuple[Options, ...]:
        """All options of each target."""
        return tuple(map(options_of_target, self.targets))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the targets, such as `llvm`, each once."""
        return tuple(dict.fromkeys(str(options["kind"]) for options in self.options))

    def may_run(self, devices: frozenset[Device]) -> bool:
        """Whether one of the targets may run what is planned for all of `devices`."""
        return any(all(may_run(options, device) for device in devices) for options in self.options)


def misplaced(graph: Graph, given: Sequence[Aimed], default: DefaultDevice) -> Refusal:
    """
    Why no target of a spec may run nodes, for what is planned for their device; that of nodes
    that are planned for none is the `default`.
    """
    by_name = {each.spec.name: each for each in given}
    unplanned = {name: default.refusal(each.kinds) for name, each in by_name.items()}

    def refusal(target: str, inside: OpSet) -> str:
        devices = graph.devices(inside)
        if not devices:
            return unplanned[target]
        if by_name[target].may_run(devices):
            return ""
        return f"no target of {target} is or refines that of {next(iter(devices))}"

    return refusal


def specs_of(targets: Sequence[Any], backends: Sequence[Backend] = ()) -> list[FusionSpec]:
    """
    The specs of `targets`: specs; strings as for the option `-t`; paths of files; or TVM targets,
    whose specs `gather` finds.
    """
    return [spec for spec, _ in _given(targets, backends)]


def aimed(targets: Sequence[Any], backends: Sequence[Backend] = ()) -> list[Aimed]:
    """
    The different specs of `targets`, in their order, each with the targets that have it. If two
    TVM targets have different specs with the same name, such as the native specs of two
    processors, the second is called `tvm_2`.
    """
    together: list[tuple[FusionSpec, list[Any]]] = []
    for spec, target in _given(targets, backends):
        same = next((aims for known, aims in together if known == spec), None)
        if same is None:
            together.append((spec, [target]))
        else:
            same.append(target)
    found: list[Aimed] = []
    for spec, aims in together:
        if not isinstance(aims[0], FusionSpec):
            spec = _renamed(spec, {each.spec.name for each in found})
        found.append(Aimed(spec, tuple(aims)))
    return found


def _renamed(spec: FusionSpec, taken: set[str]) -> FusionSpec:
    """`spec` with a name that is not in `taken`."""
    name, count = spec.name, 1
    while name in taken:
        count += 1
        name = f"{spec.name}_{count}"
    return replace(spec, target=replace(spec.target, name=name))


def _given(targets: Sequence[Any], backends: Sequence[Backend]) -> list[tuple[FusionSpec, Any]]:
    """Each spec with the target that it came from, or with itself if it was given by itself."""
    if isinstance(targets, str | Path | FusionSpec):
        raise TargetError('targets are given as a list, such as ["native"]')
    if isinstance(targets, Mapping):
        raise TargetError("targets are given as a list, such as [*specs.values()]")
    if not isinstance(targets, Iterable):
        raise TargetError(
            f'targets are given as a list, such as ["native"], not as a {type(targets).__name__}'
        )
    found: list[tuple[FusionSpec, Any]] = []
    for target in targets:
        if isinstance(target, FusionSpec):
            found.append((target, target))
        elif isinstance(target, str):
            refuse_old_string(target)
            found += [(spec, spec) for spec in specs_named(target)]
        elif isinstance(target, Path):
            found += [(spec, spec) for spec in load(target).values()]
        else:
            found += [(spec, target) for spec in gather_all(target, backends=backends)]
    return found
