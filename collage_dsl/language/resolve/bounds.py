"""The bounds of what is there several times: `repeat[1..6]`, `path[1..6]`, `each[2..8]`."""

from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.resolve.scope import MAX_DEPTH, MAX_FIELDS
from collage_dsl.language.syntax import ast


def check_bounds(written: ast.Repeat | ast.PathFrom | ast.TupleOfEach, findings: Findings) -> None:
    """Report bounds that are too small or too large, or in the wrong order."""
    match written:
        case ast.Repeat():
            example, lowest, highest, what = "repeat[1..6] act(x)", 0, MAX_DEPTH, "times"
        case ast.PathFrom():
            example, lowest, highest, what = "path[1..6] act from x", 0, MAX_DEPTH, "calls"
        case ast.TupleOfEach():
            example, lowest, highest, what = "each[2..8] act(_)", 1, MAX_FIELDS, "fields"
    least, most = written.least, written.most
    if lowest <= least <= most <= highest and most > 0:
        return
    message = f"the bounds must be from {lowest} to {highest} {what}, the smaller one first"
    if lowest <= most < least <= highest:
        example = f"{example.partition('[')[0]}[{most}..{least}] …"
    findings.error("E0301", written.span, message, f"write `{example}`")
