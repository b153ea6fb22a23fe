"""Find the nodes that `--at` names."""

from pathlib import Path

from collage_dsl.cli.failure import CommandError
from collage_dsl.graph import Graph, OpSet
from collage_dsl.language.messages.hints import did_you_mean


def nodes_at(graph: Graph, at: str, model: Path) -> OpSet:
    """The nodes for which `at` is a name, that of an ONNX node too. Raises CommandError."""
    found = graph.at(at)
    if not found:
        hint = did_you_mean(at, graph.known_names)
        raise CommandError(f"{model} has no node `{at}`" + (f"; {hint}" if hint else ""))
    return found
