"""What compiled models are compared with in tests."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

from collage_dsl.realization.runners import runner

Array = np.ndarray[Any, Any]


def run_onnx(model: onnx.ModelProto | str, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of `model` in onnxruntime without optimisations."""
    return runner(model)(inputs)
