"""A fusion spec inside a TVM `Target`, and back."""

from collections.abc import Mapping
from typing import Any

import tvm

from collage_dsl.language import load, to_text
from collage_dsl.rules import FusionSpec

ATTRIBUTE = "feature.fusion_spec"
"""
Where the text of a spec is kept. TVM takes features of any name for every target kind, and
keeps them through `str`, `export`, `save_json` and pickling; other unknown options it refuses.
"""

_PLAIN = ("fusion_spec", "partition_rule")


class TargetError(Exception):
    """A target cannot carry a spec, or does not carry one that can be read."""


def attach(target: tvm.target.Target | Mapping[str, Any] | str, spec: FusionSpec) -> Any:
    """
    A TVM target like `target` whose features carry `spec`, in place of one it has already.

    Raises `TargetError` for a target of another kind than the spec is for, and for one that
    has a spec where the original design put it, as a plain option.
    """
    options = _options(target)
    if options["kind"] != spec.target.kind:
        raise TargetError(
            f"`{spec.name}` is a spec for {spec.target.kind}, the target is {options['kind']}"
        )
    return tvm.target.Target({**options, ATTRIBUTE: to_text(spec)})


def extract(target: tvm.target.Target | Mapping[str, Any]) -> FusionSpec | None:
    """
    The spec that `target` carries, None where it carries none. Raises `TargetError` where a
    plain option holds one, and `RuleError` where the text is not a spec.
    """
    text = _options(target).get(ATTRIBUTE)
    if text is None:
        return None
    specs = load(text=str(text), name="fusion_spec of a target")
    if len(specs) != 1:
        raise TargetError(f"the fusion spec of a target has {len(specs)} targets, not one")
    return next(iter(specs.values()))


def _options(target: tvm.target.Target | Mapping[str, Any] | str) -> dict[str, Any]:
    """The options of `target` as a dictionary."""
    if isinstance(target, tvm.target.Target):
        return dict(target.export())
    options = {"kind": target} if isinstance(target, str) else dict(target)
    plain = next((name for name in _PLAIN if name in options), None)
    if plain:
        raise TargetError(
            f"TVM refuses `{plain}` as an option of a target: write "
            f'`collage.attach({{"kind": …}}, spec)`, which keeps it as "{ATTRIBUTE}"'
        )
    if "kind" not in options:
        raise TargetError("a target needs a `kind`, such as llvm")
    return options
