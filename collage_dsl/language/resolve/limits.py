"""Check limits, in the arguments of `only_valid` and in the `limits` block of a target."""

from collections.abc import Iterable, Mapping
from typing import Any

from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.messages.hints import did_you_mean
from collage_dsl.language.resolve.arguments import whole_number
from collage_dsl.language.syntax import ast
from collage_dsl.rules import Limits
from collage_dsl.rules.rule_functions import LIMITS, Sort, WholeNumber
from collage_dsl.source import Span

_SORTS = {limit.name: limit.sort for limit in LIMITS}


def check_limits(written: Iterable[tuple[str, ast.Expression]], findings: Findings) -> Limits:
    """The limits in `max_exits 1; taps allowed;`. A wrong one is reported and keeps its default."""
    found: dict[str, Any] = {}
    for name, value in written:
        match _SORTS[name]:
            case Sort.TAPS:
                found[name] = _taps(value, findings)
            case Sort.TRUTH:
                found[name] = _truth(name, value, findings)
            case WholeNumber(_, _, may_be_any):
                found[name] = _bound(name, value, may_be_any, findings)
                _check_order(name, value.span, found, findings)
            case sort:
                raise AssertionError(sort)
    return Limits(**found)


def _check_order(name: str, span: Span, found: Mapping[str, Any], findings: Findings) -> None:
    """Report `min_nodes` above `max_nodes`, at whichever is written second."""
    least, most = found.get("min_nodes"), found.get("max_nodes")
    if name in ("min_nodes", "max_nodes") and least and most and least > most:
        message = f"`min_nodes` {least} is more than `max_nodes` {most}"
        findings.error(
            "E0423",
            span,
            message,
            "no candidate can satisfy both: lower `min_nodes` or raise `max_nodes`",
        )


def _bound(name: str, value: ast.Expression, may_be_any: bool, findings: Findings) -> int | None:
    if may_be_any and isinstance(value, ast.Name) and value.text == "any":
        return None
    return whole_number(value, f"`{name}`", findings, otherwise="any" if may_be_any else "")


def _taps(value: ast.Expression, findings: Findings) -> bool:
    match value:
        case ast.Name("allowed") | ast.Literal(True):
            return True
        case ast.Name("none") | ast.Literal(False):
            return False
    hint = did_you_mean(value.span.text, ("allowed", "none"))
    findings.error("E0404", value.span, "`taps` must be `allowed` or `none`", hint)
    return False


def _truth(name: str, value: ast.Expression, findings: Findings) -> bool:
    match value:
        case ast.Literal(bool() as truth):
            return truth
    findings.error("E0404", value.span, f"`{name}` must be `true` or `false`")
    return False
