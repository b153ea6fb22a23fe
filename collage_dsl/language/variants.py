"""Check the `variants` of a target: the algorithms that may compute its kernels."""

from collage_dsl.diagnostics import Note
from collage_dsl.graph.variants import NATIVE_VARIANTS
from collage_dsl.language import syntax
from collage_dsl.language.findings import Findings, did_you_mean, listed
from collage_dsl.source import Span


def check_variants(
    written: syntax.Expression, *, is_native: bool, findings: Findings
) -> tuple[str, ...]:
    """
    The variants in `[direct, winograd4]`, or all but those in `not [gemm]`; empty if one is wrong.

    The names of a native target are known. A library has names of its own, which are not checked.
    """
    match written:
        case syntax.List():
            return variant_names(written, is_native=is_native, findings=findings)
        case syntax.Operation("not", None, syntax.List() as refused) if is_native:
            return _others(refused, written.span, findings)
        case syntax.Operation("not", None, syntax.List()):
            message = "which variants the compiler of this target has is not known"
            hint = "list those that may be used: `variants [a, b];`"
            findings.error("E0521", written.span, message, hint)
        case _:
            _not_a_list(written, findings)
    return ()


def variant_names(written: syntax.List, *, is_native: bool, findings: Findings) -> tuple[str, ...]:
    """The names in a list of variants; empty if one is wrong."""
    errors = findings.errors
    if not written.items:
        hint = "take `variants` out to allow all of them"
        findings.error("E0521", written.span, "this list has no variants", hint)
    found: dict[str, Span] = {}
    for item in written.items:
        if not isinstance(item, syntax.Name):
            text = item.value if isinstance(item, syntax.Literal) else None
            hint = f"write `{text}`" if text in tuple(NATIVE_VARIANTS) else ""
            findings.error("E0521", item.span, "a variant is a name, such as `direct`", hint)
        elif is_native and item.text not in NATIVE_VARIANTS:
            hint = did_you_mean(item.text, NATIVE_VARIANTS)
            hint = hint or f"there are {listed(NATIVE_VARIANTS, 'and')}"
            message = f"no variant of native kernels is named `{item.text}`"
            findings.error("E0521", item.span, message, hint)
        elif item.text in found:
            note = Note("given here first", found[item.text])
            findings.error("E0521", item.span, f"`{item.text}` is given twice", notes=(note,))
        else:
            found[item.text] = item.span
    return () if findings.errors > errors else tuple(found)


def _others(refused: syntax.List, span: Span, findings: Findings) -> tuple[str, ...]:
    """The native variants that are not among `refused`."""
    names = variant_names(refused, is_native=True, findings=findings)
    others = tuple(name for name in NATIVE_VARIANTS if name not in names)
    if not others:
        message = "this refuses every variant, so that no kernel can be computed"
        findings.error("E0521", span, message)
    return others if names else ()


def _not_a_list(written: syntax.Expression, findings: Findings) -> None:
    match written:
        case syntax.Name(name):
            hint = f"write `variants [{name}];`"
        case syntax.Operation("not", None, syntax.Name(name)):
            hint = f"write `variants not [{name}];`"
        case _:
            hint = "write `variants [direct];`"
    findings.error("E0503", written.span, "`variants` is a list of names", hint)
