"""Run a model in what compiled models are compared with: onnxruntime, or PyTorch."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from threading import Timer
from time import monotonic
from typing import Any

import numpy as np
import onnx

from collage_dsl.frontend.errors import RefusedInputsError
from collage_dsl.frontend.from_torch import is_of_torch
from collage_dsl.frontend.onnx_model import Shapes
from collage_dsl.frontend.reference import REFUSALS, reference_session
from collage_dsl.frontend.torch_reference import TorchReference
from collage_dsl.graph.arrays import Array
from collage_dsl.offline import onnxruntime
from collage_dsl.realization.objects import run_session
from collage_dsl.realization.onnx_reference import SUMS_SHAKEN, evaluated
from collage_dsl.realization.shaken import SUM_SHAKE, decides, is_float, with_shaken_values
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
    return _Limited(reference_session(model, shapes, approximates=True)).run


_PATIENCE = 600.0
"""The seconds that the first run of a model may take."""

_EXCESS = 20
"""How many times as long as the longest run before, and a minute, another may take."""


class _Limited:
    """A session whose runs are ended if they take far too long: some inputs end no loop."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.limit = _PATIENCE
        self.longest = 0.0

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        options = onnxruntime.RunOptions()
        timer = Timer(self.limit, setattr, (options, "terminate", True))
        timer.daemon = True
        timer.start()
        started = monotonic()
        try:
            found = run_session(self.session, inputs, options)
        except REFUSALS as error:
            if options.terminate:
                raise RefusedInputsError(f"it has not ended after {self.limit:.0f} s") from error
            raise
        finally:
            timer.cancel()
        self.longest = max(self.longest, monotonic() - started)
        self.limit = 60 + _EXCESS * self.longest
        return found


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


def near_runner(model: Any, shapes: Shapes | None = None) -> Evaluate:
    """
    Computes `model` with weights that differ by what rounding does to a long sum, if it decides by
    numbers. Without floats among the inputs, nothing else shows which integers rounding decides: a
    zero point that is added to a small number hides a smaller change of it.
    """
    if is_of_torch(model):
        return lambda inputs: ()
    loaded = model if isinstance(model, onnx.ModelProto) else onnx.load_model(model)

    def outputs(inputs: Mapping[str, Array]) -> Iterator[Mapping[str, Array]]:
        generator = np.random.default_rng(0)
        for _ in range(SUMS_SHAKEN if decides(loaded) else 0):
            with suppress(*REFUSALS):
                yield runner(with_shaken_values(loaded, generator, SUM_SHAKE), shapes)(inputs)

    return outputs


def reference_name(model: Any) -> str:
    """What `model` is compared with."""
    return "PyTorch" if is_of_torch(model) else ONNXRUNTIME
