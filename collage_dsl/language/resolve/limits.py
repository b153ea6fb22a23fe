"""Check limits, in the arguments of `only_valid` and in the `limits` block of a target."""

from collections.abc import Iterable, Mapping

from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.resolve.arguments import whole_number
from collage_dsl.language.syntax import ast
from collage_dsl.rules import Limits
from collage_dsl.source import Span

LIMITS = (
    "max_exits",
    "max_depth",
    "max_nodes",
    "taps",
    "min_nodes",
    "largest_first",
    "max_regions",
    "max_candidates",
)
_NEVER_ANY = ("min_nodes", "max_candidates")


def check_limits(written: Iterable[tuple[str, ast.Expression]], findings: Findings) -> Limits:
    """The limits in `max_exits 1; taps allowed;`. A wrong one is reported and keeps its default."""
    bounds: dict[str, int | None] = {}
    taps = largest_first = False
    for name, value in written:
        match name:
            case "taps":
                taps = _taps(value, findings)
            case "largest_first":
                largest_first = _truth(name, value, findings)
            case _:
                bounds[name] = _bound(name, value, findings)
                _check_order(name, value.span, bounds, findings)
    return Limits(
        max_exits=bounds.get("max_exits", 1),
        max_depth=bounds.get("max_depth"),
        max_nodes=bounds.get("max_nodes"),
        taps=taps,
        min_nodes=bounds.get("min_nodes"),
        largest_first=largest_first,
        max_regions=bounds.get("max_regions"),
        max_candidates=bounds.get("max_candidates"),
    )


def _check_order(
    name: str, span: Span, bounds: Mapping[str, int | None], findings: Findings
) -> None:
    """Report `min_nodes` above `max_nodes`, at whichever is written second."""
    least, most = bounds.get("min_nodes"), bounds.get("max_nodes")
    if name in ("min_nodes", "max_nodes") and least and most and least > most:
        message = f"`min_nodes` {least} is more than `max_nodes` {most}"
        findings.error("E0423", span, message, "no candidate keeps to both")


def _bound(name: str, value: ast.Expression, findings: Findings) -> int | None:
    if isinstance(value, ast.Name) and value.text == "any" and name not in _NEVER_ANY:
        return None
    return whole_number(value, f"`{name}`", findings)


def _taps(value: ast.Expression, findings: Findings) -> bool:
    match value:
        case ast.Name("allowed") | ast.Literal(True):
            return True
        case ast.Name("none") | ast.Literal(False):
            return False
    findings.error("E0404", value.span, "`taps` are `allowed` or `none`")
    return False


def _truth(name: str, value: ast.Expression, findings: Findings) -> bool:
    match value:
        case ast.Literal(bool() as truth):
            return truth
    findings.error("E0404", value.span, f"`{name}` is `true` or `false`")
    return False
