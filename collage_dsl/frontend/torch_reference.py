"""Run a program that PyTorch exported in PyTorch, to get reference outputs."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from collage_dsl.frontend.errors import RefusedInputsError
from collage_dsl.graph.arrays import Array


class TorchReference:
    """Computes the outputs of an `ExportedProgram` by name from its inputs by name."""

    def __init__(self, program: Any) -> None:
        self.program = program
        self.signature = program.graph_signature

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Raises `RefusedInputsError`."""
        return self._run(inputs, lambda tensor: tensor)

    def exact(self, inputs: Mapping[str, Array]) -> Iterator[dict[str, Array]]:
        """The outputs computed in float64, where the program can be."""
        try:
            yield self._run(inputs, _widened)
        except RefusedInputsError:  # A type is fixed inside the program.
            return

    def _run(self, inputs: Mapping[str, Array], given: Callable[[Any], Any]) -> dict[str, Array]:
        import torch

        values = [given(self._value(each, inputs)) for each in self.signature.input_specs]
        try:
            with torch.no_grad():
                found = self.program.graph_module(*values)
        except (RuntimeError, IndexError) as error:
            raise RefusedInputsError(str(error)) from error
        specs = zip(self.signature.output_specs, found, strict=True)
        kept = [(each.arg.name, value) for each, value in specs if each.kind.name == "USER_OUTPUT"]
        return {name: _array(value) for name, value in kept}

    def _value(self, spec: Any, inputs: Mapping[str, Array]) -> Any:
        if spec.kind.name == "USER_INPUT":
            return _tensor(inputs[spec.arg.name])
        for values in (self.program.state_dict, self.program.constants):
            if spec.target in values:
                return values[spec.target].detach().clone()  # A program may change its buffers.
        raise AssertionError(spec)


def _widened(tensor: Any) -> Any:
    return tensor.double() if tensor.is_floating_point() else tensor


def _tensor(array: Array) -> Any:
    import torch

    array = np.ascontiguousarray(array)
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def _array(tensor: Any) -> Array:
    import torch

    tensor = tensor.detach().contiguous()
    if tensor.dtype == torch.bfloat16:
        return np.asarray(tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16))
    return np.asarray(tensor.numpy())
