"""Composites that their target gives to no library."""

from collections.abc import Collection, Iterator, Mapping

from collage_dsl.diagnostics import Note
from collage_dsl.graph import Toolchain
from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.syntax import ast
from collage_dsl.rules import FusionRule, Tagged, sub_rules
from collage_dsl.source import Span

NATIVE = "tvm"
"""The compiler that stands for TVM itself, as where no compiler is named."""


def check_libraries(
    rule: FusionRule,
    target: Toolchain,
    written: ast.Name,
    places: Mapping[str, Span],
    rules: Span,
    findings: Findings,
) -> None:
    """
    Report the libraries that composites of a native target name and its option `libs` does not,
    each once. `places` are those of the labels in this file; others are reported at `rules`.
    """
    if target.compiler not in (None, NATIVE):
        return
    first: dict[str, str] = {}
    for label in _not_linked(rule, _libs(target)):
        first.setdefault(_library(label), label)
    for library, label in first.items():
        message = f"target `{target.name}` does not use the library `{library}`, "
        message += f"so `{label}` is only a label"
        hint = f'write `libs: ["{library}"]` in the target\'s options, or `compiler "{library}";`'
        notes = (Note("the target", written.span),)
        findings.warning("W0542", places.get(label, rules), message, hint, notes)


def _libs(target: Toolchain) -> Collection[str]:
    libs = target.options.get("libs", ())
    return libs if isinstance(libs, tuple) else str(libs).split(",")


def _library(label: str) -> str:
    """The library that is to run a composite: `onednn` runs `onednn.conv_block`."""
    return label.partition(".")[0]


def _not_linked(rule: FusionRule, libs: Collection[str]) -> Iterator[str]:
    """
    The labels of `rule` whose library is not among `libs`. What is inside the composite of a
    library is that library's own.
    """
    match rule:
        case Tagged(label, inner):
            if _library(label) not in libs:
                yield label
                yield from _not_linked(inner, libs)
        case _:
            for each in sub_rules(rule):
                yield from _not_linked(each, libs)
