"""The first of the four steps: the fusion spec of a TVM target."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from re import ASCII, sub
from typing import Any

import tvm

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import backend_names
from collage_dsl.diagnostics import RuleError
from collage_dsl.graph import Option, Toolchain
from collage_dsl.language import load
from collage_dsl.language.checked import checked
from collage_dsl.resources import shipped_spec, shipped_specs
from collage_dsl.rules import FusionSpec, Limits, OpPredicate
from collage_dsl.rules.predicate import BACKEND, Predicate
from collage_dsl.targets.attach import COMPILER, TargetError, extract_all, options_of

NATIVE = "tvm"
"""The compiler that stands for TVM itself, as where no compiler is named."""

_NOT_OPTIONS = ("kind", "tag", "keys", "host")


def gather(
    target: tvm.target.Target | Mapping[str, Any] | str, *, backends: Sequence[Backend] = ()
) -> FusionSpec:
    """
    The spec of a TVM target, from the first of these that there is:

    - the spec that the target carries (`attach`);
    - the shipped spec of its compiler, `{"kind": "llvm", "feature.compiler": "onnxruntime"}`,
      which for a library whose patterns TVM has is that pattern table;
    - where its compiler is one of `backends`, or a registered backend: each call that this
      backend supports, neighbours merged after the search;
    - where it names no compiler, or `tvm`, the native spec.

    A spec that the target does not carry takes the kind and the options of the target. Raises
    `TargetError` for a compiler without a spec that is no backend either, and for options that a
    spec cannot say.
    """
    specs = gather_all(target, backends=backends)
    if len(specs) > 1:
        raise TargetError(f"the target carries {len(specs)} specs: `gather_all` gives them all")
    return specs[0]


def gather_all(
    target: tvm.target.Target | Mapping[str, Any] | str, *, backends: Sequence[Backend] = ()
) -> tuple[FusionSpec, ...]:
    """All the specs that a TVM target carries, else the one that `gather` finds for it."""
    own = extract_all(target)
    if own:
        return own
    options = options_of(target)
    compiler = str(options.get(COMPILER, NATIVE))
    spec = _of_compiler(compiler, backends)
    said = _said(options)
    return (replace(spec, target=replace(spec.target, kind=options["kind"], options=said)),)


def current_targets(module: tvm.IRModule) -> list[Any]:
    """
    The target that TVM compiles for now, and those of the virtual devices of `module`, each once.
    Raises `TargetError` where there is none.
    """
    current = tvm.target.Target.current(allow_none=True)
    planned = [device.target for device in module.global_infos.get("vdevice", [])]
    every = ([] if current is None else [current]) + planned
    if not every:
        raise TargetError("no target is given: name some, or compile for a TVM target")
    return list({str(each): each for each in every}.values())


def _of_compiler(compiler: str, backends: Sequence[Backend]) -> FusionSpec:
    if compiler == NATIVE:
        return next(spec for spec in _specs("native") if spec.target.compiler is None)
    shipped = shipped_specs()
    for name in (compiler, *shipped) if compiler in shipped else shipped:
        for spec in _specs(name):
            if spec.target.compiler == compiler:
                return spec
    if compiler in backend_names(backends):
        return _supported(compiler)
    names = ", ".join(shipped for shipped in shipped_specs() if shipped != "native")
    raise TargetError(
        f"no spec ships for the compiler `{compiler}` (there are {names}), and no backend is named "
        "so: write one, and give it to the target with `collage.attach`"
    )


@cache
def _specs(shipped: str) -> tuple[FusionSpec, ...]:
    path = shipped_spec(shipped)
    return tuple(load(path).values()) if path else ()


def _supported(backend: str) -> FusionSpec:
    """Each call that the backend supports by itself, and neighbours merged after the search."""
    name = sub(r"\W", "_", backend, flags=ASCII)
    asked = Predicate(f"{backend}.supports", ("call",), BACKEND + backend)
    toolchain = Toolchain(name, compiler=backend)
    spec = FusionSpec(toolchain, OpPredicate(asked), Limits(None, taps=True), coalesce=True)
    try:
        return checked([spec], "<gathered>")[name]
    except (RuleError, ValueError) as problem:
        raise TargetError(f"a spec cannot ask the backend `{backend}`: {problem}") from problem


def _said(options: Mapping[str, Any]) -> dict[str, Option]:
    """The options that were given, as a spec says them: not those that TVM adds by itself."""
    usual = tvm.target.Target({"kind": options["kind"]}).export()
    found: dict[str, Option] = {}
    for name, value in options.items():
        if name in _NOT_OPTIONS or name.startswith("feature.") or usual.get(name) == value:
            continue
        if not isinstance(value, Option):
            raise TargetError(f"a spec cannot say the option `{name}` of a target")
        plain = value if isinstance(value, bool | int | float) else str(value)
        found[name.replace("-", "_")] = plain
    return found
