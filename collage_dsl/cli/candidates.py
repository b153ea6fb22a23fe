"""`collage candidates`: the kernels that the rules of targets propose for a model."""

from collections.abc import Sequence
from pathlib import Path

from collage_dsl.cli.answer import answer
from collage_dsl.cli.graphs import load_graph
from collage_dsl.cli.targets import load_targets
from collage_dsl.engine.nodes import nodes_at
from collage_dsl.engine.steps import propose
from collage_dsl.report.documents import CandidateDocument, CandidatesDocument
from collage_dsl.report.text import candidates_text


def show_candidates(
    model: Path,
    targets: Sequence[str],
    output_format: str,
    shapes: Sequence[str],
    allow_extern: bool,
    max_candidates: int | None,
    at: str | None = None,
) -> None:
    """Show the candidates of a model, or only those that take one of the nodes `at`."""
    specs = load_targets(targets, allow_extern=allow_extern, max_candidates=max_candidates)
    graph = load_graph(model, shapes)
    asked = 0 if at is None else nodes_at(graph, at)
    found = propose(graph, *specs, allow_extern=allow_extern)
    if asked:
        found = tuple(each for each in found if each.sub_graph.inside & asked)
    document = CandidatesDocument(
        model=str(model), candidates=[CandidateDocument.of(candidate) for candidate in found]
    )
    answer(document, candidates_text(document), output_format)
