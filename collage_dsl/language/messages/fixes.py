"""Apply the fixes of diagnostics to a text."""

from collections.abc import Iterable

from collage_dsl.diagnostics import Fix, Replacement


def compatible(fixes: Iterable[Fix]) -> tuple[Fix, ...]:
    """Those of `fixes` that overlap no earlier one."""
    chosen: list[Fix] = []
    for fix in fixes:
        taken = [each for other in chosen if other != fix for each in other.replacements]
        if not any(_overlap(new, old) for new in fix.replacements for old in taken):
            chosen.append(fix)
    return tuple(dict.fromkeys(chosen))


def applied(text: str, fixes: Iterable[Fix]) -> str:
    """`text` after `fixes`. One that overlaps an earlier one is left out."""
    chosen = [each for fix in compatible(fixes) for each in fix.replacements]
    parts, end = [], 0
    for each in sorted(chosen, key=lambda each: (each.span.start, each.span.end)):
        parts += [text[end : each.span.start], each.text]
        end = each.span.end
    return "".join([*parts, text[end:]])


def _overlap(one: Replacement, two: Replacement) -> bool:
    """Whether both change the same characters, or insert at the same place."""
    if one.span.start == two.span.start:
        return True
    first, second = sorted((one.span, two.span), key=lambda span: span.start)
    return second.start < first.end
