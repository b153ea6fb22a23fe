"""Limits, as arguments of `only_valid` and as the `limits` of a target."""

from collections.abc import Iterable

from collage_dsl.language import syntax
from collage_dsl.language.arguments import whole_number
from collage_dsl.language.findings import Findings
from collage_dsl.rules import Limits

LIMITS = ("max_exits", "max_depth", "max_nodes", "taps")


def check_limits(written: Iterable[tuple[str, syntax.Expression]], findings: Findings) -> Limits:
    """`max_exits 1; taps allowed;`; what is wrong is reported and keeps its default."""
    bounds: dict[str, int | None] = {}
    taps = False
    for name, value in written:
        if name == "taps":
            taps = _taps(value, findings)
        else:
            bounds[name] = _bound(name, value, findings)
    return Limits(
        max_exits=bounds.get("max_exits", 1),
        max_depth=bounds.get("max_depth"),
        max_nodes=bounds.get("max_nodes"),
        taps=taps,
    )


def _bound(name: str, value: syntax.Expression, findings: Findings) -> int | None:
    if isinstance(value, syntax.Name) and value.text == "any":
        return None
    return whole_number(value, f"`{name}`", findings)


def _taps(value: syntax.Expression, findings: Findings) -> bool:
    match value:
        case syntax.Name("allowed") | syntax.Literal(True):
            return True
        case syntax.Name("none") | syntax.Literal(False):
            return False
    findings.error("E0404", value.span, "`taps` are `allowed` or `none`")
    return False
