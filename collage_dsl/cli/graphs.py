"""Load the model named on the command line as a graph, for commands that only inspect it."""

from collections.abc import Sequence
from pathlib import Path

from collage_dsl.cli.failure import CommandError
from collage_dsl.cli.models import parse_shapes
from collage_dsl.graph import Graph

SUFFIX = ".graph"
"""The suffix of files in the text notation of graphs, which need no TVM."""


def load_graph(model: Path, shapes: Sequence[str]) -> Graph:
    """
    The graph of an ONNX file, of a file in the text notation, or of the light model of that
    name. Raises CommandError, and the errors of reading either file.
    """
    if model.suffix == SUFFIX:
        return _written(model, shapes)
    from collage_dsl.frontend.onnx import from_onnx

    if not model.exists():
        from collage_dsl.frontend.light import light_model, light_models

        if str(model) in light_models():
            return from_onnx(light_model(str(model)), shapes=parse_shapes(shapes))
        names = ", ".join(light_models())
        raise CommandError(f"there is no model {model}; the light models are {names}")
    return from_onnx(model, shapes=parse_shapes(shapes))


def _written(model: Path, shapes: Sequence[str]) -> Graph:
    from collage_dsl.language import parse_graph, read

    if shapes:
        raise CommandError("--shape is for ONNX models: a graph in text has its own shapes")
    return parse_graph(read(model).text, str(model))
