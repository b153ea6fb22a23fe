"""Take a user's arrays as inputs and outputs of a model, without a copy if possible."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm_ffi import from_dlpack

from collage_dsl.graph.arrays import Array
from collage_dsl.graph.sizes import UNKNOWN, may_be, names_in, size_of
from collage_dsl.realization.signature import InputError, Signature, Value

_DLPACK = (1, 1)
"""The version of the protocol that exchanges read-only arrays. Inputs are only read."""

_HOST_DEVICES = (1, 3, 11, 13)
"""DLPack's numbers of the CPU, and of the memory of CUDA and ROCm that the CPU can read."""

Lent = list[tuple[list[Any], Any]]
"""The buffers that a call uses, each with the list that it goes back to."""


class Input:
    """
    Converts what a user gives for one input to a tensor for the virtual machine.

    If `borrows` is set, a C-contiguous array is used without a copy. Any other array is copied to
    a buffer that later calls use again.
    """

    def __init__(self, value: Value, *, borrows: bool) -> None:
        self.value = value
        self.dtype = np.dtype(object if value.is_object else value.dtype)
        self.shape = value.static_shape
        self.borrows = borrows and is_exchanged(self.dtype)
        # TVM and numpy disagree about the strides of an array without elements.
        self.is_used_as_it_is = self.borrows and self.shape is not None and 0 not in self.shape
        self.buffers: list[tuple[Any, Array]] = []

    def fits(self, given: Any) -> bool:
        """Whether `given` has the shape of the input, which has as many dimensions."""
        if self.value.is_object:
            return True
        shape = tuple(given.shape)
        return shape == self.shape or (self.shape is None and may_be(self.value.shape, shape))

    def tensor(self, given: object, lent: Lent) -> Any:
        """The tensor for `given`. If it needs a buffer, the buffer is added to `lent`."""
        if self.value.is_object:
            from collage_dsl.realization.objects import held  # needs onnx, which few models do

            return held(self.value, given)
        array = array_of(self.value, given)
        if self.borrows and array.size and array.flags.c_contiguous and array.flags.aligned:
            return from_dlpack(array.__dlpack__(max_version=_DLPACK))
        return self.copy(array, lent)

    def copy(self, array: Array, lent: Lent) -> Any:
        """A tensor in TVM's own memory with the values of `array`."""
        if self.shape is None or not is_exchanged(self.dtype):
            return tvm.runtime.tensor(np.asarray(array, order="C"))
        try:
            buffer = self.buffers.pop()
        except IndexError:
            new = tvm.runtime.empty(self.shape, self.value.dtype)
            buffer = new, np.from_dlpack(new)
        tensor, content = buffer
        np.copyto(content, array)
        lent.append((self.buffers, buffer))
        return tensor

    def copied(self, given: object) -> Any:
        """The tensor for `given` in TVM's own memory."""
        is_object = self.value.is_object
        return self.tensor(given, []) if is_object else self.copy(array_of(self.value, given), [])


def array_of(value: Value, given: object) -> Array:
    """The memory of `given`. Raises `InputError` for another dtype or shape than `value`."""
    is_scalar = isinstance(given, np.generic)
    array = np.asarray(given) if is_scalar else _array(f"input `{value.name}`", given)
    if not _is_of(value, array):
        raise InputError(
            f"input `{value.name}` is {array.dtype}{list(array.shape)}, the model takes {value}"
        )
    return array


def writable(value: Value, given: object) -> Array:
    """The memory of `given`, to be filled with the output `value`. Raises `InputError`."""
    if value.is_object:
        raise InputError(f"output `{value.name}` is {value}, which has no array to write to")
    array = _array(f"output `{value.name}` in `out`", given)
    if not _is_of(value, array):
        raise InputError(
            f"output `{value.name}` is {value}, "
            f"the array given for it is {array.dtype}{list(array.shape)}"
        )
    if not array.flags.writeable:
        raise InputError(f"the array given for output `{value.name}` is read-only")
    return array


def _is_of(value: Value, array: Array) -> bool:
    """Whether an array has the dtype of `value`, and the dimensions that are numbers."""
    return array.dtype == np.dtype(value.dtype) and may_be(value.shape, array.shape)


def check_sizes(signature: Signature, tensors: Sequence[Any]) -> None:
    """
    Raise `InputError` where a dimension with a name has two sizes in `tensors`, or is 0, which
    nothing was compiled for, and where a formula or an operator needs another size.
    """
    values = signature.inputs
    known: dict[str, tuple[int, str]] = {}
    for value, tensor in zip(values, tensors, strict=True):
        for axis, dim in enumerate(value.shape or ()):
            if not isinstance(dim, str) or dim == UNKNOWN or value.is_object:
                continue
            size = int(tensor.shape[axis])
            first, where = known.setdefault(dim, (size, value.name))
            if size == 0:
                raise InputError(
                    f"input `{value.name}` is {value}, and its dimension {axis} is 0: it is at "
                    "least 1, unless the model is compiled for the size 0"
                )
            if size != first:
                raise InputError(
                    f"input `{value.name}` is {value}, and `{dim}` is {first} in input `{where}`: "
                    f"its dimension {axis} cannot be {size}"
                )
    sizes = {name: size for name, (size, _) in known.items()}
    for dim, (size, where) in known.items():
        if (right := size_of(dim, sizes)) not in (dim, size):
            told = _told(names_in(dim), known)
            raise InputError(
                f"{told}, so `{dim}` of input `{where}` is {right}: it cannot be {size}"
            )
    for each in signature.requirements:
        if not each.holds(sizes):
            raise InputError(f"{_told(each.names, known)}, but {each.node} needs {each}")


def _told(names: Collection[str], known: Mapping[str, tuple[int, str]]) -> str:
    return ", ".join(
        f"`{name}` of input `{known[name][1]}` is {known[name][0]}"
        for name in sorted(known.keys() & names)
    )


def is_exchanged(dtype: np.dtype[Any]) -> bool:
    """Whether the dtype is numpy's own, so that numpy exchanges its arrays by DLPack."""
    return dtype.isbuiltin == 1


def _array(what: str, given: object) -> Array:
    """The memory of `given` as a numpy array. Raises `InputError` if there is none."""
    if isinstance(given, np.ndarray):
        return given
    if not (hasattr(given, "__dlpack__") and hasattr(given, "__dlpack_device__")):
        raise InputError(f"{what} is of type {type(given).__name__}, which is no array")
    kind, _ = given.__dlpack_device__()
    if int(kind) not in _HOST_DEVICES:
        raise InputError(
            f"{what} is on a device of DLPack type {int(kind)}; the model runs on the CPU"
        )
    try:
        return np.from_dlpack(given)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(f"{what} cannot be used: {error}") from error
