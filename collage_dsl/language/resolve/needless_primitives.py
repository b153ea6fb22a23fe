"""Report primitives of a list that join nothing more than others of the list do."""

from collections.abc import Iterable, Sequence

from collage_dsl.language.messages.findings import Findings, quoted
from collage_dsl.language.syntax import ast
from collage_dsl.rules import KindPair, Primitive


def check_needless(
    written: Sequence[ast.Expression], found: Sequence[tuple[Primitive, ...]], findings: Findings
) -> None:
    """Report each item of a list that another covers; of two that are equal, the second."""
    for at, (item, primitives) in enumerate(zip(written, found, strict=True)):
        for other, covering in enumerate(found):
            is_equal = _covered(covering, primitives)
            if other == at or not _covered(primitives, covering) or (is_equal and other > at):
                continue
            message = "this primitive is given twice"
            if not is_equal:
                message = f"{quoted(written[other].span)} joins all that this primitive joins"
            findings.warning("W0425", item.span, message, "remove it")
            break


def _covered(primitives: Iterable[Primitive], by: Iterable[Primitive]) -> bool:
    return all(any(_covers(other, each) for other in by) for each in primitives)


def _covers(one: Primitive, other: Primitive) -> bool:
    match one, other:
        case KindPair(), KindPair(upstream, downstream):
            return one.concerns(upstream, downstream)
        case _:
            return one == other
