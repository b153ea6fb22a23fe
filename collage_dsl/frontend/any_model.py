"""Read a model in whatever form it is given."""

from os import PathLike
from typing import Any

import onnx

from collage_dsl.frontend.arrays import SharedConstants
from collage_dsl.frontend.errors import ShapesError, no_model
from collage_dsl.frontend.from_torch import from_torch, is_of_torch
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.frontend.onnx_model import Shapes
from collage_dsl.graph import Graph


def graph_of(
    model: Any, shapes: Shapes | None = None, shared: SharedConstants | None = None
) -> Graph:
    """
    The graph of a model: the path of an ONNX file, an ONNX `ModelProto`, or an `ExportedProgram` of
    PyTorch. Raises `FrontendError` for anything else. `shared` is as in `from_onnx`.
    """
    if is_of_torch(model):
        if shapes:
            raise ShapesError("a PyTorch program has the shapes that it was exported for")
        return from_torch(model)
    if not isinstance(model, str | PathLike | onnx.ModelProto):
        taken = "the path of an ONNX file, an ONNX ModelProto, or what torch.export.export gives"
        raise no_model(model, taken)
    return from_onnx(model, shapes=shapes, shared=shared)
