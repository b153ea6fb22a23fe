"""Find nodes of a model by the names that users write."""

from collage_dsl.graph import Graph, OpSet
from collage_dsl.language.messages.hints import did_you_mean


class UnknownNode(Exception):  # noqa: N818, reads as what it says
    """A model has no node of the name that a user writes."""


def nodes_at(graph: Graph, at: str) -> OpSet:
    """The nodes for which `at` is a name, that of an ONNX node too. Raises `UnknownNode`."""
    found = graph.at(at)
    if not found:
        hint = did_you_mean(at, graph.known_names)
        raise UnknownNode(f"the model has no node `{at}`" + (f"; {hint}" if hint else ""))
    return found
