"""`collage coverage`: how many operators of a model each target can run, and why not the others."""

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_
from pathlib import Path

from collage_dsl.cli.graphs import load_graph
from collage_dsl.cli.models import answer
from collage_dsl.cli.targets import load_targets
from collage_dsl.engine.covering import Coverage, coverage
from collage_dsl.graph import Graph
from collage_dsl.printable import printable
from collage_dsl.report.documents import (
    CoverageDocument,
    LeftOutDocument,
    TargetCoverageDocument,
)

_SHOWN = 20
"""The most operators that the text lists for a target."""


def show_coverage(
    model: Path,
    targets: Sequence[str],
    output_format: str,
    shapes: Sequence[str],
    allow_extern: bool,
) -> None:
    specs = load_targets(targets, 1, allow_extern=allow_extern)
    graph = load_graph(model, shapes)
    alone = coverage(graph, specs, allow_extern=allow_extern)
    together = reduce(or_, (each.covered for each in alone))
    calls = graph.calls.bit_count()
    document = CoverageDocument(
        model=str(model),
        together=together.bit_count(),
        calls=calls,
        targets=[
            TargetCoverageDocument(
                target=each.target,
                covered=each.covered.bit_count(),
                calls=calls,
                left=_left(graph, each),
            )
            for each in alone
        ],
    )
    answer(document, "".join(f"{line}\n" for line in _lines(document)), output_format)


def _left(graph: Graph, found: Coverage) -> list[LeftOutDocument]:
    """What is left by operator and reason, the most frequent first."""
    groups: dict[tuple[str, str], list[str]] = {}
    for index, reason in found.left.items():
        node = graph.nodes[index]
        # One reason for all calls of an operator: without their names.
        key = node.op, reason.replace(f"`{node.name}`", "it")
        groups.setdefault(key, []).append(node.name)
    rows = [
        LeftOutDocument(operator=op, calls=len(names), example=names[0], reason=reason)
        for (op, reason), names in groups.items()
    ]
    return sorted(rows, key=lambda row: (-row.calls, row.operator))


def _lines(document: CoverageDocument) -> Iterator[str]:
    yield f"{printable(document.model)}: {document.calls} operator calls"
    for each in document.targets:
        share = _percent(each.covered, each.calls)
        yield f"{each.target}: {each.covered} of {each.calls} ({share})"
        for row in each.left[:_SHOWN]:
            example = f"`{printable(row.example)}`"
            yield f"  {row.calls:4} {row.operator}, such as {example}: {printable(row.reason)}"
        if len(each.left) > _SHOWN:
            yield f"  and {len(each.left) - _SHOWN} more"
    if len(document.targets) > 1:
        yield f"together: {document.together} ({_percent(document.together, document.calls)})"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "100 %"
