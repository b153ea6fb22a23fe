"""Check the prices of operators in the `costs` of a test."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from collage_dsl.diagnostics import Note
from collage_dsl.graph.operators import operators, relax_operators
from collage_dsl.language.messages.advice import operator_meant
from collage_dsl.language.messages.findings import Findings, quoted
from collage_dsl.language.messages.hints import Hint, did_you_mean
from collage_dsl.language.syntax import ast


def prices_of(
    written: Sequence[ast.Price], findings: Findings, *, is_of_graph: bool
) -> dict[str, float]:
    """
    The prices (s) by the globs of operators, of which the first that matches counts. Those that are
    never used are reported. In a model (not `is_of_graph`) there may be operators of other domains.
    """
    kept: dict[str, ast.Price] = {}
    for price in written:
        glob = price.operators
        earlier = (each for each in kept.values() if _covers(each.operators, glob))
        if not _matches_any(glob) and (is_of_graph or "." not in glob):
            message = f"no operator is named {quoted(price.span)}, so this price is never used"
            findings.warning("W0704", price.span, message, _meant(glob))
        elif (first := next(earlier, None)) is not None:
            _report_later(price, first, findings)
        kept.setdefault(glob, price)
    return {glob: price.seconds for glob, price in kept.items()}


def _covers(first: str, second: str) -> bool:
    """Whether the glob `first` matches all that `second` does; False where that is not known."""
    if first == second:
        return True
    if any(sign in second for sign in "*?[") and (set(first) & set("?[") or "[" in second):
        return False
    # Only a `*` of `first` matches a `*` or `?`, and it also matches what these stand for.
    return fnmatchcase(second, first)


def _matches_any(glob: str) -> bool:
    return any(fnmatchcase(op, glob) for op in operators())


def _report_later(price: ast.Price, earlier: ast.Price, findings: Findings) -> None:
    notes = (Note("the first price that matches counts", earlier.span),)
    name = quoted(earlier.span)
    message = f"this price is never used: {name} matches all its operators"
    hint = f"write it before {name}"
    if earlier.operators == price.operators:
        message, hint = f"{name} has a price already", "remove one of them"
    findings.warning("W0704", price.span, message, hint, notes)


def _meant(glob: str) -> Hint:
    known = operators() if glob.startswith("onnx.") else relax_operators()
    hint = operator_meant(glob) or did_you_mean(glob, known)
    if not hint and _matches_any(f"*{glob}"):
        hint = Hint(f'write `"*{glob}"`', f"*{glob}")
    return Hint(hint, hint.new and f'"{hint.new}"')
