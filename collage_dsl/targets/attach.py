"""Put fusion specs into a TVM `Target`, and read them back."""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import count, takewhile
from typing import Any

import tvm

from collage_dsl.frontend.devices import plain_options
from collage_dsl.graph import Option
from collage_dsl.graph.target_kinds import target_kinds
from collage_dsl.language import load, to_text
from collage_dsl.rules import FusionSpec

ATTRIBUTE = "feature.fusion_spec"
"""
The option that keeps the text of a spec. TVM accepts features with any name for every target
kind, and keeps them in `str`, `export`, `save_json` and pickling. It refuses other unknown options.
"""

_PLAIN = ("fusion_spec", "partition_rule")

COMPILER = "feature.compiler"
"""The option in which a target names the library that runs its kernels."""

_OPTION = r"--?([A-Za-z][\w-]*)(?:=(\S*)|\s+([^-\s]\S*))?"
_OLD_STRING = re.compile(rf"(\w+)((?:\s+{_OPTION})+)", re.ASCII)


def embedded(spec: FusionSpec) -> dict[str, Any]:
    """
    The TVM target of `spec` as plain data for JSON: its kind, its options and the spec, without
    the options that TVM adds for this machine.
    """
    named = f" `{spec.name}`"
    usual = made(spec.target.kind, named)
    known = usual.kind.options
    options = {
        name if name in known else name.replace("_", "-"): value
        for name, value in spec.target.options.items()
    }
    target = _attached({"kind": spec.target.kind, **options}, (spec,), named)
    added = dict(usual.export())
    said = {n: v for n, v in target.export().items() if n == "kind" or added.get(n) != v}
    plain: dict[str, Any] = plain_options(said)
    return plain


class TargetError(Exception):
    """A target cannot carry a spec, or carries one that cannot be read."""


def attach(target: tvm.target.Target | Mapping[str, Any] | str, *specs: FusionSpec) -> Any:
    """
    A TVM target like `target` whose features carry `specs`, in place of its own specs.

    Raises `TargetError` if the target has another kind than a spec is for, if it has a spec as a
    plain option, as in the original design, and if TVM refuses it.
    """
    return _attached(target, specs)


def made(options: Mapping[str, Any] | str, named: str = "") -> Any:
    """The TVM target of `options`. Raises `TargetError` with the reason if TVM refuses it."""
    try:
        return tvm.target.Target(options)
    except ValueError as problem:
        reason = str(problem).split(". Known options")[0].split(". Target creation from")[0]
        raise TargetError(f"TVM refuses the target{named}: {reason}") from None


def _attached(
    target: tvm.target.Target | Mapping[str, Any] | str,
    specs: Sequence[FusionSpec],
    named: str = "",
) -> Any:
    options = options_of(target)
    if not specs:
        raise TargetError("no spec is given to attach to the target")
    for spec in specs:
        _check_spec(spec, options["kind"])
    texts = {_feature(number): to_text(spec) for number, spec in enumerate(specs, 1)}
    others = {name: value for name, value in options.items() if not name.startswith(ATTRIBUTE)}
    return made({**others, **texts}, named)


def _check_spec(spec: FusionSpec, kind: str) -> None:
    if not isinstance(spec, FusionSpec):
        raise TargetError(
            "a spec is what `load` gives for the name of a target, and not a value of type "
            f"{type(spec).__name__}"
        )
    if kind != spec.target.kind:
        raise TargetError(f"`{spec.name}` is a spec for {spec.target.kind}, the target is {kind}")


def _feature(number: int) -> str:
    """The option in which a target keeps the spec with this number."""
    return ATTRIBUTE if number == 1 else f"{ATTRIBUTE}_{number}"


def extract(target: tvm.target.Target | Mapping[str, Any]) -> FusionSpec | None:
    """
    The spec that `target` carries; None if it carries none. Raises `TargetError` if a plain
    option has a spec, or the spec is for another kind of target, and `RuleError` if the text is
    not a spec.
    """
    specs = extract_all(target)
    if len(specs) > 1:
        raise TargetError(f"the target carries {len(specs)} specs: `extract_all` gives them all")
    return specs[0] if specs else None


def extract_all(target: tvm.target.Target | Mapping[str, Any]) -> tuple[FusionSpec, ...]:
    """The specs that `target` carries, in order. Raises the same errors as `extract`."""
    options = options_of(target)
    names = list(takewhile(options.__contains__, map(_feature, count(1))))
    for name in options:
        if name.startswith(ATTRIBUTE) and name not in names:
            raise TargetError(f'the target has "{name}", but no "{_feature(len(names) + 1)}"')
    return tuple(_spec(options[name], str(options["kind"])) for name in names)


def _spec(text: object, kind: str) -> FusionSpec:
    if not isinstance(text, str):
        raise TargetError(
            f'"{ATTRIBUTE}" of a target is the text of a spec, not of type {type(text).__name__}'
        )
    specs = load(text=text, name="fusion_spec of a target")
    if len(specs) != 1:
        raise TargetError(f"the fusion spec of a target has {len(specs)} targets, not one")
    (spec,) = specs.values()
    _check_spec(spec, kind)
    return spec


def options_of(target: tvm.target.Target | Mapping[str, Any] | str) -> dict[str, Any]:
    """
    The options of `target` as a dictionary; where it has a tag of TVM instead of a kind, such as
    `nvidia/nvidia-a100`, those that the tag stands for. Raises `TargetError` for plain options of
    the original design, which TVM refuses.
    """
    if isinstance(target, tvm.target.Target):
        return dict(target.export())
    if isinstance(target, str):
        refuse_old_string(target)
        return {"kind": target} if target in target_kinds() else dict(made(target).export())
    if not isinstance(target, Mapping):
        raise TargetError(f"a target is not of type {type(target).__name__}")
    options = dict(target)
    plain = next((name for name in _PLAIN if name in options), None)
    if plain:
        raise TargetError(
            f"TVM refuses `{plain}` as an option of a target: write "
            f'`collage.attach({{"kind": …}}, spec)`, which keeps it as "{ATTRIBUTE}"'
        )
    if "compiler" in options:
        raise TargetError(f'TVM refuses `compiler` as an option of a target: write "{COMPILER}"')
    if "kind" in options:
        refuse_old_string(str(options["kind"]))
        return options
    if "tag" in options:
        return dict(made(options).export())
    raise TargetError("a target needs a `kind`, such as llvm, or a `tag`")


def refuse_old_string(text: str) -> None:
    """
    Raise `TargetError` if `text` is a target string of older TVM, such as `cuda -libs=cudnn`. The
    message has the dictionary to write instead.
    """
    found = _OLD_STRING.fullmatch(text.strip())
    if found is None:
        return
    types = target_kinds().get(found[1], {})
    options: dict[str, Any] = {"kind": found[1]}
    for name, joined, apart in re.findall(_OPTION, found[2]):
        type_ = types.get(name, "str")
        options[COMPILER if name == "compiler" else name] = _old_value(type_, joined or apart)
    raise TargetError(f'TVM no longer takes the target "{text}": write {json.dumps(options)}')


def _old_value(type_: str, said: str) -> Option | list[str]:
    """The value of an option in a target string; an option without a value is true."""
    if not said:
        return True
    if type_ == "list":
        return said.split(",")
    if type_ == "bool":
        return said.lower() in ("1", "true")
    return int(said) if type_ == "int" and said.isdecimal() else said
