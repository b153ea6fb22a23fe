"""Check the variants of targets and rules: the algorithms that may compute kernels."""

from collections.abc import Mapping

from collage_dsl.diagnostics import Note
from collage_dsl.graph import Toolchain
from collage_dsl.graph.variants import DIRECT, NATIVE_VARIANTS
from collage_dsl.language.messages.findings import Findings, listed
from collage_dsl.language.messages.hints import Hint, did_you_mean, write
from collage_dsl.language.syntax import ast
from collage_dsl.rules import FusionRule, OnlyVariants, sub_rules
from collage_dsl.source import Span


def check_variants(
    written: ast.Expression, *, is_native: bool, findings: Findings
) -> tuple[str, ...]:
    """
    The variants in `[direct, winograd4]`, or all but those in `not [gemm]`; empty if one is wrong.

    The names of a native target are known. A library has names of its own, which are not checked.
    """
    match written:
        case ast.List():
            return variant_names(written, is_native=is_native, findings=findings)
        case ast.Operation("not", None, ast.List() as refused) if is_native:
            return _others(refused, written.span, findings)
        case ast.Operation("not", None, ast.List()):
            message = "the variants of this compiler are not known, so none can be excluded"
            hint = "list those that may be used: `variants [a, b];`"
            findings.error("E0521", written.span, message, hint)
        case _:
            _not_a_list(written, findings)
    return ()


def check_rule_variants(
    rule: FusionRule,
    target: ast.Name,
    places: Mapping[str, Span],
    rules: Span,
    findings: Findings,
) -> None:
    """
    Report the variants that the rule of a native target names and native kernels do not have.
    `places` are those of the names in this file; others are reported at `rules`.
    """
    if isinstance(rule, OnlyVariants):
        notes = (Note("the target", target.span),)
        for name in rule.variants:
            _check_known(name, places.get(name, rules), findings, notes)
    for inner in sub_rules(rule):
        check_rule_variants(inner, target, places, rules, findings)


def check_allowed(
    rule: FusionRule,
    target: Toolchain,
    places: Mapping[OnlyVariants, Span],
    rules: Span,
    findings: Findings,
) -> None:
    """
    Report parts of the rule that name no variant which the target and the rules around allow.
    `places` are those of the variants in this file; others are reported at `rules`.
    """
    _check_allowed(rule, target.variants, f"target `{target.name}`", places, rules, findings)


def _check_allowed(
    rule: FusionRule,
    allowed: tuple[str, ...],
    by: str,
    places: Mapping[OnlyVariants, Span],
    rules: Span,
    findings: Findings,
) -> None:
    if isinstance(rule, OnlyVariants):
        both = tuple(name for name in rule.variants if name in allowed or not allowed)
        if not both:
            message = f"{by} allows none of these variants"
            hint = f"it allows {listed(allowed, 'and')}, not {listed(rule.variants)}"
            findings.warning("W0425", places.get(rule, rules), message, hint)
        elif both != allowed:
            allowed, by = both, "the rule around this one"
    for inner in sub_rules(rule):
        _check_allowed(inner, allowed, by, places, rules, findings)


def check_direct(target: Toolchain, variants: Span, fallback: Span, findings: Findings) -> None:
    """Report a native `fallback` target that does not allow the variant `direct`."""
    if target.variants and DIRECT not in target.variants:
        message = f"fallback target `{target.name}` does not cover every operator"
        notes = (Note("promised here", fallback),)
        hint = f"allow `{DIRECT}`, the only variant that can compute every kernel"
        findings.warning("W0530", variants, message, hint, notes)


def variant_names(written: ast.List, *, is_native: bool, findings: Findings) -> tuple[str, ...]:
    """The names in a list of variants; empty if one is wrong."""
    errors = findings.errors
    if not written.items:
        hint = "name a variant such as `direct`; without a list all are allowed"
        findings.error("E0521", written.span, "this list has no variants", hint)
    found: dict[str, Span] = {}
    for item in written.items:
        if not isinstance(item, ast.Name):
            _not_a_name(item, findings)
        elif item.text in found:
            note = Note("given here first", found[item.text])
            findings.error(
                "E0521", item.span, f"`{item.text}` is given twice", "remove it", (note,)
            )
        else:
            found[item.text] = item.span
            if is_native:
                _check_known(item.text, item.span, findings)
    return () if findings.errors > errors else tuple(found)


def _not_a_name(item: ast.Expression, findings: Findings) -> None:
    text = item.value if isinstance(item, ast.Literal) else None
    hint = write(str(text)) if text in tuple(NATIVE_VARIANTS) else ""
    findings.error("E0521", item.span, "a variant must be a name, such as `direct`", hint)


def _check_known(name: str, span: Span, findings: Findings, notes: tuple[Note, ...] = ()) -> None:
    if name not in NATIVE_VARIANTS:
        hint: str = did_you_mean(name, NATIVE_VARIANTS)
        hint = hint or f"there are {listed(NATIVE_VARIANTS, 'and')}"
        message = f"no variant of native kernels is named `{name}`"
        findings.error("E0521", span, message, hint, notes)


def _others(refused: ast.List, span: Span, findings: Findings) -> tuple[str, ...]:
    """The native variants that are not among `refused`."""
    names = variant_names(refused, is_native=True, findings=findings)
    others = tuple(name for name in NATIVE_VARIANTS if name not in names)
    if not others:
        message = "this excludes every variant, so no kernel can be computed"
        hint = "leave out `direct`, which can compute every kernel"
        findings.error("E0521", span, message, hint)
    return others if names else ()


def _not_a_list(written: ast.Expression, findings: Findings) -> None:
    match written:
        case ast.Name(name):
            hint = Hint(f"write `variants [{name}];`", f"[{name}]")
        case ast.Operation("not", None, ast.Name(name)):
            hint = Hint(f"write `variants not [{name}];`", f"not [{name}]")
        case _:
            hint = Hint("write `variants [direct];`")
    findings.error("E0503", written.span, "`variants` must be a list of names", hint)
