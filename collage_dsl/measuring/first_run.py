"""The first run of a model in onnxruntime, in a process of its own because it may crash."""

from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from collage_dsl.frontend.errors import RefusedInputsError
from collage_dsl.frontend.onnx_model import Shapes
from collage_dsl.frontend.reference import REFUSALS, reference_session
from collage_dsl.measuring.executors import answered
from collage_dsl.measuring.process import Failed
from collage_dsl.measuring.worker import Workers
from collage_dsl.realization.objects import run_session

Array = np.ndarray[Any, Any]
Task = tuple[Any, Shapes | None, Mapping[str, Array]]
"""A model, or the path of its file; the shapes of its inputs; and the inputs."""

_LIMIT = 3600.0
"""Seconds that a run may take."""


def runner_apart(model: Any, shapes: Shapes | None) -> Callable[[Mapping[str, Array]], None]:
    """
    Runs an ONNX model, or the file of one, in another process. Raises `RefusedInputsError` where it
    does not run: with what onnxruntime says, or with the signal that ended the process.
    """
    given = Path(model).absolute() if isinstance(model, str | Path) else model

    def run(inputs: Mapping[str, Array]) -> None:
        with Workers(_refusal) as workers:
            found = answered(workers, (given, shapes, inputs), _LIMIT)
        reason = f"onnxruntime {found.reason}" if isinstance(found, Failed) else found
        if reason:
            raise RefusedInputsError(reason)

    return run


def _refusal(task: Task) -> Generator[None, None, str]:
    """Why onnxruntime does not run a model on some inputs; empty if it does."""
    model, shapes, inputs = task
    yield
    try:
        run_session(reference_session(model, shapes), inputs)
    except REFUSALS as error:
        return str(error)
    return ""
