"""`collage coverage`: how many operators of a model each target can run, and why not others."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from collage_dsl.cli.answer import answer
from collage_dsl.cli.cost_store import check_costs
from collage_dsl.cli.failure import CommandError
from collage_dsl.cli.graphs import load_graph
from collage_dsl.cli.targets import load_targets
from collage_dsl.cost.sources import MEASURED
from collage_dsl.cost.store import default_store_path
from collage_dsl.engine.covering import Coverage, coverage
from collage_dsl.engine.known_time import (
    KnownTime,
    UnknownTimeError,
    measured_time,
    priced_time,
)
from collage_dsl.graph import Graph, union_of
from collage_dsl.printable import printable
from collage_dsl.report.documents import (
    CoverageDocument,
    LeftOutDocument,
    TargetCoverageDocument,
)
from collage_dsl.report.text import seconds
from collage_dsl.rules import FusionSpec

_SHOWN = 20
"""The most operators that the text lists for a target."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Where costs are known from: the sources `given`, or else a store, for so many cores."""

    given: tuple[str, ...]
    store: Path | None
    num_cores: int

    @property
    def file(self) -> Path:
        return self.store or default_store_path()

    @property
    def named(self) -> str:
        """The sources or the store; empty where nothing has been measured."""
        return ", ".join(self.given) or (str(self.file) if self.file.is_file() else "")

    def check(self) -> None:
        """Raise what is wrong with the sources."""
        if MEASURED in self.given:
            raise CommandError("coverage measures nothing: give `recorded` in place of `measured`")
        check_costs(self.given, self.store)


def show_coverage(
    model: Path,
    targets: Sequence[str],
    output_format: str,
    shapes: Sequence[str],
    allow_extern: bool,
    costs: Costs,
) -> None:
    """Show how many calls of the model each target can run, why not the others, and its time."""
    specs = load_targets(targets, costs.num_cores, allow_extern=allow_extern)
    costs.check()
    graph = load_graph(model, shapes)
    alone = coverage(graph, specs, allow_extern=allow_extern)
    together = union_of(each.covered for each in alone)
    time, unknown = _time(graph, specs, alone, costs, allow_extern=allow_extern)
    calls = graph.calls.bit_count()
    document = CoverageDocument(
        model=str(model),
        together=together.bit_count(),
        calls=calls,
        costs=costs.named or None,
        seconds=time.seconds if time else None,
        kernels=time.kernels if time else None,
        unknown=unknown or None,
        targets=[
            TargetCoverageDocument(
                target=each.target,
                covered=each.covered.bit_count(),
                calls=calls,
                left=_left(graph, each),
                seconds=time.of_target[each.target] if time else None,
            )
            for each in alone
        ],
    )
    answer(document, "".join(f"{line}\n" for line in _lines(document)), output_format)


def _time(
    graph: Graph,
    specs: Sequence[FusionSpec],
    alone: Sequence[Coverage],
    costs: Costs,
    *,
    allow_extern: bool,
) -> tuple[KnownTime | None, str]:
    """The time that is known, or why none is."""
    try:
        if costs.given:
            found = priced_time(
                graph, specs, alone, costs.given, costs.file, allow_extern=allow_extern
            )
        elif costs.named:
            found = measured_time(graph, specs, alone, costs.file, allow_extern=allow_extern)
        else:
            return None, "nothing has been measured"
    except UnknownTimeError as error:
        return None, str(error)
    return found, ""


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
    calls = f"{document.calls} operator call{'s' * (document.calls != 1)}"
    yield f"{printable(document.model)}: {calls}"
    for each in document.targets:
        share = _percent(each.covered, each.calls)
        time = _share(each.seconds, document.seconds)
        yield f"{each.target}: {each.covered} of {each.calls} ({share}){time}"
        for row in each.left[:_SHOWN]:
            example = f"`{printable(row.example)}`"
            yield f"  {row.calls:4} {row.operator}, such as {example}: {printable(row.reason)}"
        if len(each.left) > _SHOWN:
            yield f"  and {len(each.left) - _SHOWN} more"
    if len(document.targets) > 1:
        yield f"together: {document.together} ({_percent(document.together, document.calls)})"
    yield f"time: {_time_text(document)}"


def _share(part: float | None, whole: float | None) -> str:
    """
    The part of the time. A kernel of which a target can run only some calls does not count, so it
    may be more.
    """
    if part is None or not whole:
        return ""
    least = "" if part >= whole else "at least "
    return f", {least}{_percent(part, whole)} of the time"


def _time_text(document: CoverageDocument) -> str:
    if document.seconds is None or document.kernels is None:
        return f"not known: {printable(document.unknown or '')}"
    count = f"{document.kernels} kernel{'s' * (document.kernels != 1)}"
    return (
        f"{seconds(document.seconds)} in {count}, the cheapest plan with costs from "
        f"{printable(document.costs or '')}"
    )


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "100 %"
