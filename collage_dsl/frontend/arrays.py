"""Convert constants between TVM and numpy, without a copy if the memory allows it."""

import hashlib
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import tvm
from tvm import relax

from collage_dsl.graph.arrays import Array


def array_of(tensor: Any) -> Array:
    """The values of a TVM tensor. It shares the memory of the tensor, so do not write to it."""
    try:
        return np.from_dlpack(tensor)
    except (BufferError, RuntimeError, TypeError):  # numpy does not have the dtype
        return np.asarray(tensor.numpy())


def empty(shape: Sequence[int], dtype: Any) -> Array:
    """
    An array without values yet. It starts at a multiple of 64 bytes, so that a constant can share
    its memory.
    """
    size = prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


_ALIGNMENT = 64


def constant(array: Array) -> Any:
    """A Relax constant of `array`, whose memory it may share."""
    return relax.const(_tensor(np.asarray(array)))


class SharedConstants:
    """Relax constants of several graphs, of which equal ones are made once."""

    def __init__(self) -> None:
        self.made: dict[tuple[str, tuple[int, ...], bytes], Any] = {}

    def __call__(self, array: Array) -> Any:
        """See `constant`."""
        content = hashlib.sha256(np.ascontiguousarray(array).view(np.uint8).data).digest()
        key = str(array.dtype), array.shape, content
        if key not in self.made:
            self.made[key] = constant(array)
        return self.made[key]


def _tensor(array: Array) -> Any:
    # A small copy is cheaper than an exchange, and DLPack refuses read-only memory; TVM refuses
    # memory that does not start at a multiple of 64 bytes.
    if array.nbytes < 1 << 16 or not array.flags.writeable or not array.flags.c_contiguous:
        return tvm.runtime.tensor(array)
    try:
        return tvm.runtime.from_dlpack(array)
    except (BufferError, RuntimeError):  # DLPack does not have the dtype, or not this memory
        return tvm.runtime.tensor(array)
