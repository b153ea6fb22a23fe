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
        if is_constant(spec):
            return spec.arg.value
        if spec.kind.name == "USER_INPUT":
            return _tensor(inputs[spec.arg.name])
        for values in (self.program.state_dict, self.program.constants):
            if spec.target in values:
                return values[spec.target].detach().clone()  # A program may change its buffers.
        raise AssertionError(spec)


def is_constant(spec: Any) -> bool:
    """Whether an input or output of a program is a number, a text or None."""
    return type(spec.arg).__name__ == "ConstantArgument"


def _widened(value: Any) -> Any:
    import torch

    is_wide = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.double() if is_wide else value


def _tensor(array: Array) -> Any:
    import torch

    array = np.ascontiguousarray(array)
    name = array.dtype.name
    if name in _UNKNOWN_TO_NUMPY:
        bits = np.dtype(f"uint{8 * array.dtype.itemsize}")
        return torch.from_numpy(array.view(bits).copy()).view(getattr(torch, name))
    return torch.from_numpy(array.copy())


def _array(value: Any) -> Array:
    """A tensor as an array; a number in the dtype that the exporter writes for it."""
    import torch

    if not isinstance(value, torch.Tensor):
        return np.asarray(value, np.float32 if isinstance(value, float) else None)
    tensor = value.detach().contiguous()
    name = str(tensor.dtype).removeprefix("torch.")
    if name in _UNKNOWN_TO_NUMPY:
        bits = getattr(torch, f"uint{8 * tensor.element_size()}")
        return np.asarray(tensor.view(bits).numpy().view(getattr(ml_dtypes, name)))
    return np.asarray(tensor.numpy())


_UNKNOWN_TO_NUMPY = frozenset(
    {"bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"}
)
"""Dtypes for which `ml_dtypes` and PyTorch have the same names."""
