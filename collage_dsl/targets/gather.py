"""The first of the four steps: find the fusion spec of a TVM target."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from re import ASCII, sub
from typing import Any

import tvm
from tvm_ffi import Array

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import backend_names
from collage_dsl.diagnostics import RuleError
from collage_dsl.graph import Option, Toolchain
from collage_dsl.language import load
from collage_dsl.language.checked import checked
from collage_dsl.language.resolve.libraries import NATIVE
from collage_dsl.language.resolve.pattern_tables import NoTableError
from collage_dsl.resources import shipped_spec, shipped_specs
from collage_dsl.rules import FusionSpec, Limits, OpPredicate
from collage_dsl.rules.predicate import BACKEND, Predicate
from collage_dsl.targets.attach import (
    COMPILER,
    TargetError,
    embedded,
    extract_all,
    made,
    options_of,
)
from collage_dsl.targets.registered_tables import is_registered, registered_table

_NOT_OPTIONS = ("kind", "tag", "host")


def gather(
    target: tvm.target.Target | Mapping[str, Any] | str, *, backends: Sequence[Backend] = ()
) -> FusionSpec:
    """
    The spec of a TVM target. It is the first of these that exists:

    - the spec that the target carries (`attach`);
    - the shipped spec of its compiler, `{"kind": "llvm", "feature.compiler": "onnxruntime"}`;
      if TVM has patterns for this library, that is their pattern table;
    - a spec of the patterns that your code has registered with TVM for its compiler, with names
      such as `mylib.conv`: it proposes each match by itself;
    - if its compiler is one of `backends` or a registered backend: a spec that proposes each call
      that this backend supports, and merges neighbours after the search;
    - if it names no compiler, or `tvm`: the native spec.

    Except for the spec that the target carries, the spec gets the kind and the options of the
    target. Raises `TargetError` if the compiler has no spec and is not a backend, and for options
    that a spec cannot have.
    """
    specs = gather_all(target, backends=backends)
    if len(specs) > 1:
        raise TargetError(f"the target carries {len(specs)} specs: `gather_all` gives them all")
    return specs[0]


def gather_all(
    target: tvm.target.Target | Mapping[str, Any] | str, *, backends: Sequence[Backend] = ()
) -> tuple[FusionSpec, ...]:
    """All specs that a TVM target carries; if it carries none, the one that `gather` finds."""
    own = extract_all(target)
    if own:
        return own
    options = options_of(target)
    compiler = str(options.get(COMPILER, NATIVE))
    spec = _of_compiler(compiler, backends)
    said = _said(options)
    found = replace(spec, target=replace(spec.target, kind=options["kind"], options=said))
    embedded(found)  # Raises `TargetError` for an option that TVM refuses.
    return (found,)


def current_targets(module: tvm.IRModule) -> list[Any]:
    """
    The current target of TVM, and the targets of the virtual devices of `module`, each once.
    Raises `TargetError` if there is none.
    """
    current = tvm.target.Target.current(allow_none=True)
    planned = [device.target for device in module.global_infos.get("vdevice", [])]
    every = ([] if current is None else [current]) + planned
    if not every:
        raise TargetError("no target is given: name some, or compile for a TVM target")
    return list({str(each): each for each in every}.values())


def _of_compiler(compiler: str, backends: Sequence[Backend]) -> FusionSpec:
    if compiler == NATIVE:
        return _specs("native")[0]
    if shipped := _shipped(compiler):
        return shipped
    if is_registered(compiler):
        return _of_table(compiler)
    if compiler in backend_names(backends):
        return _supported(compiler)
    if compiler in shipped_specs():  # the spec `clml` is for the compiler `openclml`
        return _specs(compiler)[0]
    raise TargetError(
        f"no spec ships for the compiler `{compiler}` (there are {', '.join(_compilers())}), and "
        "no registered pattern or backend is named so: import the module that registers its "
        "patterns, or write a spec and give it to the target with `collage.attach`"
    )


def _shipped(compiler: str) -> FusionSpec | None:
    """The shipped spec of a compiler. Most of them have its name, so that file is read first."""
    for name in sorted(shipped_specs(), key=lambda name: name != compiler):
        for spec in _specs(name):
            if spec.target.compiler == compiler:
                return spec
    return None


def _compilers() -> list[str]:
    """The compilers for which a spec ships."""
    specs = (spec for name in shipped_specs() for spec in _specs(name))
    return sorted({spec.target.compiler for spec in specs if spec.target.compiler is not None})


@cache
def _specs(shipped: str) -> tuple[FusionSpec, ...]:
    path = shipped_spec(shipped)
    return tuple(load(path).values()) if path else ()


def _supported(backend: str) -> FusionSpec:
    """
    A spec that proposes each call that the backend supports by itself, and merges neighbours
    after the search.
    """
    asked = Predicate(f"{backend}.supports", ("call",), BACKEND + backend)
    limits = Limits(None, taps=True)
    spec = FusionSpec(_toolchain(backend), OpPredicate(asked), limits, coalesce=True)
    return _checked(spec, f"a spec cannot ask the backend `{backend}`")


def _of_table(compiler: str) -> FusionSpec:
    """A spec that proposes each match of a registered pattern, as `FuseOpsByPattern` does."""
    try:
        table = registered_table(compiler)
    except NoTableError as problem:
        raise TargetError(f"no spec can be made for `{compiler}`: {problem}") from problem
    spec = FusionSpec(_toolchain(compiler), table.all)
    return _checked(spec, f"no spec can be made for `{compiler}`")


def _toolchain(compiler: str) -> Toolchain:
    name = sub(r"\W", "_", compiler, flags=ASCII)
    return Toolchain(name, compiler=compiler)


def _checked(spec: FusionSpec, what: str) -> FusionSpec:
    try:
        return checked([spec], "<gathered>")[spec.name]
    except (RuleError, ValueError) as problem:
        raise TargetError(f"{what}: {problem}") from problem


def _said(options: Mapping[str, Any]) -> dict[str, Option]:
    """The options that were given, in the form of a spec, without those that TVM adds."""
    usual = _usual(options)
    found: dict[str, Option] = {}
    for name, value in options.items():
        if name in _NOT_OPTIONS or name.startswith("feature.") or usual.get(name) == value:
            continue
        plain = _option(value)
        if plain is None:
            raise TargetError(f"a spec cannot say the option `{name}` of a target")
        found[name.replace("-", "_")] = plain
    return found


def _usual(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that TVM itself adds to a target of that kind and device."""
    given = {name: options[name] for name in ("kind", "device") if name in options}
    added = made(given).export()
    return {name: value for name, value in added.items() if name not in given}


def _option(value: Any) -> Option | None:
    """The value of an option in the form of a spec; None if a spec cannot have it."""
    match value:
        case bool() | int() | float():
            return value
        case str():
            return str(value)
        case Array() | list() | tuple() if all(isinstance(each, str) for each in value):
            return tuple(map(str, value))
    return None
