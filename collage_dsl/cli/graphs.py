"""Load the model named on the command line as a graph, for commands that only inspect it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from collage_dsl.cli.failure import CommandError
from collage_dsl.cli.shapes import parse_shapes
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

    return from_onnx(onnx_model(model), shapes=parse_shapes(shapes))


def onnx_model(model: Path) -> Any:
    """The path of an ONNX file, or the light model of that name. Raises CommandError."""
    if model.exists() or model.suffix:
        return model
    from collage_dsl.frontend.light import light_model, light_models

    if str(model) in light_models():
        return light_model(str(model))
    names = ", ".join(light_models())
    raise CommandError(f"there is no model {model}; the light models are {names}")


def _written(model: Path, shapes: Sequence[str]) -> Graph:
    from collage_dsl.language import parse_graph, read

    if shapes:
        raise CommandError("--shape is for ONNX models: a graph in text has its own shapes")
    return parse_graph(read(model).text, str(model))
