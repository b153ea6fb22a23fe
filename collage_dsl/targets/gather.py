"""The first of the four steps: the fusion spec of a TVM target."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import tvm

from collage_dsl.graph import Option
from collage_dsl.language import load
from collage_dsl.resources import shipped_spec, shipped_specs
from collage_dsl.rules import FusionSpec
from collage_dsl.targets.attach import COMPILER, TargetError, extract, options_of

_NOT_OPTIONS = ("kind", "tag", "keys", "host")


def gather(target: tvm.target.Target | Mapping[str, Any] | str) -> FusionSpec:
    """
    The spec of a TVM target, from the first of these that there is:

    - the spec that the target carries (`attach`);
    - the shipped spec of its compiler, `{"kind": "llvm", "feature.compiler": "onnxruntime"}`;
    - where it names no compiler, the native spec.

    A shipped spec takes the kind and the options of the target. Raises `TargetError` for a
    compiler without a spec, and for options that a spec cannot say.
    """
    own = extract(target)
    if own is not None:
        return own
    options = options_of(target)
    compiler = options.get(COMPILER)
    spec = _shipped("native", None) if compiler is None else _shipped(str(compiler), str(compiler))
    said = _said(options)
    return replace(spec, target=replace(spec.target, kind=options["kind"], options=said))


def _shipped(name: str, compiler: str | None) -> FusionSpec:
    path = shipped_spec(name)
    for spec in load(path).values() if path else ():
        if spec.target.compiler == compiler:
            return spec
    names = ", ".join(shipped for shipped in shipped_specs() if shipped != "native")
    raise TargetError(
        f"no spec ships for the compiler `{name}` (there are {names}): write one, and give it to "
        "the target with `collage.attach`"
    )


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
