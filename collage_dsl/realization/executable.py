"""Run a built model from Python, in any number of threads."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import tvm
from numpy import from_dlpack, ndarray
from tvm import relax

from collage_dsl.backends.engines import EngineError, Held
from collage_dsl.backends.runtime.cores import prepare_cores
from collage_dsl.graph.arrays import Array
from collage_dsl.realization.blame import Finder
from collage_dsl.realization.bytecode import UnusedExecutable
from collage_dsl.realization.crossing import NoDevice, device_named
from collage_dsl.realization.entry import (
    Weights,
    entry,
    entry_name,
    prepared_name,
    prepared_weights,
    takes_prepared,
)
from collage_dsl.realization.exchange import (
    Input,
    Lent,
    array_of,
    check_sizes,
    is_exchanged,
    writable,
)
from collage_dsl.realization.index_errors import prepare_index_errors
from collage_dsl.realization.ownership import owned_outputs
from collage_dsl.realization.signature import ExecutableError, InputError, Signature, Value


class ModelExecutable:
    """
    A built model, in memory or loaded from a folder.

    It may be called from several threads at once. A virtual machine of TVM may not, so there are
    as many machines as calls at the same time.

    A model that was compiled for several sizes has an entry function for each; what is called
    depends on the shapes of the inputs. `at_sizes` has an executable for each of those sizes, in
    the order of the signature.
    """

    def __init__(
        self,
        executable: Any,
        signature: Signature,
        position: int = 0,
        weights: Weights | None = None,
    ) -> None:
        self.signature = signature
        self.position = position
        prepare_cores(signature.cores)
        prepare_index_errors()
        is_built = isinstance(executable, tvm.runtime.Executable)
        self.unused = UnusedExecutable(executable) if is_built else None
        self.module = executable.jit() if is_built else executable
        self._devices = _devices(signature)
        is_at_home = self._devices[0] == tvm.cpu()
        machine = relax.VirtualMachine(self.module, self._devices)
        self._weights = prepared_weights(machine) if weights is None else weights
        self._idle = [self._main(machine)]
        name_of = prepared_name if takes_prepared(self._weights, position) else entry_name
        name = name_of(position)
        owned = owned_outputs(self.module["as_text"](), len(signature.outputs), name)
        # A machine keeps its last result, which may be part of an input unless it is owned.
        borrows = all(owned) and is_at_home
        self._inputs = [Input(value, borrows=borrows) for value in signature.inputs]
        self._is_free = any(
            isinstance(d, str) for each in signature.inputs for d in each.shape or ()
        )
        self._outputs = {each.name: (each, _dtype(each)) for each in signature.outputs}
        # Kept for `run`: after a model has emptied the caches, each look-up takes a microsecond.
        self._takes = [
            (each.value.name, each.shape, each.dtype if each.is_used_as_it_is else None, each)
            for each in self._inputs
        ]
        # An output that is named twice is given once.
        places = {each.name: place for place, each in enumerate(signature.outputs)}
        self._gives = [
            (places[name], name, dtype is not None and is_exchanged(dtype), owned[places[name]])
            for name, (_, dtype) in self._outputs.items()
        ]
        self._is_single = len(signature.outputs) == 1
        self.at_sizes = tuple(
            ModelExecutable(self.module, each, place, self._weights)
            for place, each in enumerate(signature.at_sizes(), start=1)
        )

    def entries(self) -> "tuple[ModelExecutable, ...]":
        """Each entry function: that for any size, which here chooses no other, then the others."""
        if not self.at_sizes:
            return (self,)
        signature = replace(self.signature, sized=())
        return ModelExecutable(self.module, signature, 0, self._weights), *self.at_sizes

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an executable cannot be pickled or copied: write it to a folder with "
            "`Compiled.save`, and read it with `load_executable`"
        )

    def run(
        self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """
        The outputs by name, as numpy arrays.

            executable.run({"x": x})
            executable.run({"x": x}, out={"y": y})  # writes to y

        An input is a numpy array or anything else on the CPU that has `__dlpack__`. It is not
        written, and not used after the call. Of the outputs, those named in `out` are written
        to the arrays given there. No other call changes an output.

        Raises `InputError`, which is an `ExecutableError`, for arrays that are missing, unknown, of
        another dtype or shape, or elsewhere, for indices that are out of range, and where a library
        refuses what its kernel is given; then nothing was written.
        """
        if self.at_sizes and (at_size := self._fitting(inputs)) is not None:
            return at_size.run(inputs, out)
        targets = {} if out is None else self._targets(out)
        lent: Lent = []
        tensors = self._taken(inputs, lent)
        try:
            results = self.call(tensors)
        except (EngineError, InputError) as error:
            raise InputError(self._explained(str(error), tensors)) from error
        if targets:
            self._check_shapes(targets, results)
        outputs: dict[str, Any] = {}
        for index, name, exchanged, owned in self._gives:
            if exchanged:
                array = from_dlpack(results[index])
            elif isinstance(results[index], Held):
                outputs[name] = _shown(results[index])
                continue
            else:
                array = results[index].numpy()
            if name in targets:
                memory, given = targets[name]
                memory[...] = array
                array = given
            elif not owned:
                array = array.copy()
            outputs[name] = array
        for buffers, buffer in lent:
            buffers.append(buffer)
        return outputs

    def tensors(self, inputs: Mapping[str, Any]) -> list[Any]:
        """Copies of `inputs` as TVM tensors, in the order of the signature."""
        names = {each.value.name for each in self._inputs}
        if not hasattr(inputs, "keys") or inputs.keys() != names:
            raise self._misnamed(inputs)
        return [each.copied(inputs[each.value.name]) for each in self._inputs]

    def call(self, tensors: Sequence[Any]) -> list[Any]:
        """Run on TVM tensors, such as those from `tensors`."""
        for each in self.at_sizes:
            if all(taken.fits(x) for taken, x in zip(each._inputs, tensors, strict=True)):
                return each.call(tensors)
        try:
            machine = self._idle.pop()
        except IndexError:
            machine = self._main(relax.VirtualMachine(self.module, self._devices))
        result = machine(*tensors)
        self._idle.append(machine)
        return [result] if self._is_single else list(result)

    def watched(self, inputs: Mapping[str, Any], watch: Callable[..., int]) -> list[Any]:
        """
        The outputs of a run of which `watch` hears every call of the virtual machine: see
        `set_instrument` in TVM.
        """
        machine = relax.VirtualMachine(self.module, self._devices)
        machine.set_instrument(watch)
        result = self._main(machine)(*self.tensors(inputs))
        return [result] if self._is_single else list(result)

    def _fitting(self, inputs: Mapping[str, Any]) -> "ModelExecutable | None":
        """The executable for the sizes of `inputs`; None if it was not compiled for them."""
        for each in self.at_sizes:
            try:
                if all(taken.fits(inputs[taken.value.name]) for taken in each._inputs):
                    return each
            except (AttributeError, KeyError, TypeError):  # No arrays by name, which is said later.
                return None
        return None

    def _explained(self, message: str, tensors: Sequence[Any]) -> str:
        """`message` of a kernel that failed, and the ONNX node: the run is repeated to find it."""
        finder = Finder(self.signature.sources)
        machine = relax.VirtualMachine(self.module, self._devices)
        machine.set_instrument(finder)
        with suppress(EngineError, InputError):
            self._main(machine)(*tensors)
        return finder.explained(message)

    def _taken(self, inputs: Mapping[str, Any], lent: Lent) -> list[Any]:
        """The arguments of the virtual machine for `inputs`. A plain numpy array stays as it is."""
        is_named = type(inputs) is dict or hasattr(inputs, "keys")
        if not is_named or len(inputs) != len(self._takes):
            raise self._misnamed(inputs)
        tensors = []
        for name, shape, dtype, each in self._takes:
            try:
                given = inputs[name]
            except KeyError:
                raise self._misnamed(inputs) from None
            if (
                type(given) is ndarray
                and given.dtype is dtype
                and given.shape == shape
                and given.flags.carray
            ):
                tensors.append(given)
            else:
                tensors.append(each.tensor(given, lent))
        if self._is_free:
            check_sizes(self.signature, tensors)
        return tensors

    def _main(self, machine: Any) -> Any:
        main = entry(machine, self._weights, self.signature.cores, self.position)
        home = self._devices[0]
        return main if home == tvm.cpu() else _from_host(main, home)

    def _misnamed(self, inputs: Any) -> InputError:
        return misnamed(self.signature.inputs, inputs)

    def _check_shapes(
        self, targets: Mapping[str, tuple[Array, Any]], results: Sequence[Any]
    ) -> None:
        """Raise `InputError` for an array that has not the shape of the output for it."""
        for index, name, _, _ in self._gives:
            if name not in targets:
                continue
            memory, shape = targets[name][0], tuple(map(int, results[index].shape))
            if memory.shape != shape:
                raise InputError(
                    f"output `{name}` has the shape {list(shape)} here, "
                    f"the array given for it {list(memory.shape)}"
                )

    def _targets(self, out: Mapping[str, Any]) -> dict[str, tuple[Array, Any]]:
        """The memory and the object of each name in `out`. Raises `InputError`."""
        if type(out) is not dict and not hasattr(out, "items"):
            kind = type(out).__name__
            raise InputError(
                f"`out` is a dict of arrays by the outputs' names, and not a value of type {kind}"
            )
        targets = {}
        for name, given in out.items():
            if name not in self._outputs:
                raise InputError(f"the model has no output `{name}`")
            value, dtype = self._outputs[name]
            is_plain = (
                type(given) is ndarray
                and given.dtype is dtype
                and given.shape == value.static_shape
                and given.flags.writeable
            )
            targets[name] = given if is_plain else writable(value, given), given
        return targets


def _shown(value: Held) -> Any:
    from collage_dsl.realization.objects import shown  # needs onnx, which few models do

    return shown(value.content)


def _dtype(value: Value) -> np.dtype[Any] | None:
    return None if value.is_object else np.dtype(value.dtype)


def misnamed(values: Sequence[Value], inputs: Any) -> InputError:
    """The error for `inputs` whose names are not those of the model's inputs."""
    if not hasattr(inputs, "keys"):
        kind = type(inputs).__name__
        return InputError(f"inputs are given by name in a dict, not in a {kind}")
    names = [value.name for value in values]
    unknown = sorted(str(name) for name in inputs if name not in names)
    if unknown:
        return InputError(f"the model has no input `{unknown[0]}`")
    missing = next(name for name in names if name not in inputs)
    return InputError(f"input `{missing}` is missing")


def arrays_of(values: Sequence[Value], inputs: Mapping[str, Any]) -> dict[str, Array]:
    """`inputs` as arrays, in the order of `values`. Raises `InputError`."""
    names = [value.name for value in values]
    if not hasattr(inputs, "keys") or inputs.keys() != set(names):
        raise misnamed(values, inputs)
    return {
        each.name: inputs[each.name] if each.is_object else array_of(each, inputs[each.name])
        for each in values
    }


def _devices(signature: Signature) -> list[Any]:
    """Raises `ExecutableError` where this machine lacks a device that the model runs on."""
    try:
        return [device_named(name) for name in signature.devices]
    except NoDevice as error:
        raise ExecutableError(f"the model cannot run: {error}") from error


def _from_host(main: Any, home: Any) -> Callable[..., Any]:
    """`main`, which takes and gives tensors on the device `home`, for tensors on the CPU."""

    def run(*tensors: Any) -> Any:
        result = main(*(_copied(tensor, home) for tensor in tensors))
        if isinstance(result, Sequence):
            return [_copied(each, tvm.cpu()) for each in result]
        return _copied(result, tvm.cpu())

    return run


def _copied(value: Any, device: Any) -> Any:
    """A tensor on `device`; any other value, such as a sequence of onnxruntime, as it is."""
    return value.copyto(device) if isinstance(value, tvm.runtime.Tensor) else value
