"""Composites that their target gives to no library, and calls that nothing in it can run."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache

from collage_dsl.diagnostics import Note
from collage_dsl.graph import Toolchain
from collage_dsl.graph.operators import PACKED_CALLS, without_code
from collage_dsl.language.messages.findings import Findings, listed
from collage_dsl.language.reasoning.patterns.always import always_called
from collage_dsl.language.syntax import ast
from collage_dsl.resources import folder
from collage_dsl.rules import DFPattern, FusionRule, OpPredicate, Tagged, sub_rules
from collage_dsl.source import Span

NATIVE = "tvm"
"""The compiler that stands for TVM itself, as where no compiler is named."""

_COMPILER = re.compile(r'^\s*compiler\s+"([^"]+)"', re.MULTILINE)


@cache
def shipped() -> frozenset[str]:
    """The compilers of the shipped specs."""
    texts = (path.read_text("utf-8") for path in folder("specs").glob("*.collage"))
    return frozenset((NATIVE, *(name for text in texts for name in _COMPILER.findall(text))))


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
    each once, and in the target of a shipped library those that name another one. `places` are
    those of the labels in this file; others are reported at `rules`.
    """
    compiler = target.compiler or NATIVE
    is_native = compiler == NATIVE
    if not is_native and compiler not in shipped():
        return
    first: dict[str, str] = {}
    for label in _not_linked(rule, _libs(target) if is_native else (compiler,)):
        if is_native or _library(label) in shipped() - {NATIVE}:
            first.setdefault(_library(label), label)
    for library, label in first.items():
        message = f"target `{target.name}` does not use the library `{library}`, "
        message += f"so `{label}` is only a label"
        hint = f'write `libs: ["{library}"]` in the target\'s options, or `compiler "{library}";`'
        if not is_native:
            hint = f'the compiler is `{compiler}`: write `compiler "{library}";`, or another label'
        notes = (Note("the target", written.span),)
        findings.warning("W0542", places.get(label, rules), message, hint, notes)


def check_code(rule: FusionRule, target: Toolchain, rules: Span, findings: Findings) -> None:
    """
    Report calls of which TVM has no code, and which are in every candidate of a part of the rule of
    a native target.
    """
    match rule:
        case DFPattern(pattern):
            for call in always_called(pattern):
                if not call.kinds and without_code().issuperset(call.ops):
                    notes = (Note("the call", call.span),)
                    said = f"a match of `{pattern.name}`"
                    _without_code(said, call.ops, target, rules, findings, notes)
                    return
        case OpPredicate(_, ops) if ops and without_code().issuperset(ops):
            _without_code("what `op_predicate` proposes", ops, target, rules, findings, ())
        case _:
            for inner in sub_rules(rule):
                check_code(inner, target, rules, findings)


def _without_code(
    what: str,
    ops: Sequence[str],
    target: Toolchain,
    rules: Span,
    findings: Findings,
    notes: tuple[Note, ...],
) -> None:
    packed = PACKED_CALLS.issuperset(ops)
    sort = "a packed function" if packed else listed(ops[:3])
    message = f"TVM has no code of {sort}, so target `{target.name}` cannot run {what}"
    compiler = "…" if packed else "onnxruntime"
    hint = f'name a compiler that has it: write `compiler "{compiler}";` in the target'
    findings.warning("W0544", rules, message, hint, notes)


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
