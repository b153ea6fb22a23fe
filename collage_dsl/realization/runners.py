"""Run a model in what compiled models are compared with: onnxruntime, or PyTorch."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import onnx

from collage_dsl.frontend.from_torch import is_of_torch
from collage_dsl.frontend.onnx_model import Shapes
from collage_dsl.frontend.reference import REFUSALS, reference_session
from collage_dsl.frontend.torch_reference import TorchReference
from collage_dsl.graph.arrays import Array
from collage_dsl.realization.objects import run_session
from collage_dsl.realization.onnx_reference import evaluated
from collage_dsl.realization.shaken import decides, is_float, with_shaken_values
from collage_dsl.realization.verification import ONNXRUNTIME

Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]
Evaluate = Callable[[Mapping[str, Array]], Iterable[Mapping[str, Array]]]


def runner(
    model: Any, shapes: Shapes | None = None
) -> Callable[[Mapping[str, Array]], dict[str, Array]]:
    """
    Runs `model` in onnxruntime without optimisations, for inputs of the `shapes` given; a program
    of PyTorch in PyTorch.
    """
    if is_of_torch(model):
        return TorchReference(model).run
    return partial(run_session, reference_session(model, shapes))


def exact_runner(model: Any, shapes: Shapes | None = None) -> Evaluate:
    """
    Computes `model` slowly, as `evaluated` does. If it rounds to integers or compares numbers
    inside, or its inputs have no floating point numbers that rounding could change, it is also run
    with weights, and values that it rounds or compares, that differ by rounding.
    """
    if is_of_torch(model):
        return TorchReference(model).exact
    loaded = model if isinstance(model, onnx.ModelProto) else onnx.load_model(model)
    is_deciding = decides(loaded)

    def outputs(inputs: Mapping[str, Array]) -> Iterator[Mapping[str, Array]]:
        yield from evaluated(loaded, inputs)
        if any(map(is_float, inputs.values())) and not is_deciding:
            return
        generator = np.random.default_rng(0)
        for _ in range(8 if is_deciding else 2):  # where it decides, few of them change much
            with suppress(*REFUSALS):
                yield runner(with_shaken_values(loaded, generator), shapes)(inputs)

    return outputs


def reference_name(model: Any) -> str:
    """What `model` is compared with."""
    return "PyTorch" if is_of_torch(model) else ONNXRUNTIME
