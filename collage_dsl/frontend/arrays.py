"""Convert constants between TVM and numpy, without a copy if the memory allows it."""

from typing import Any

import numpy as np
import tvm
from tvm import relax

Array = np.ndarray[Any, np.dtype[Any]]


def array_of(tensor: Any) -> Array:
    """The values of a TVM tensor. It shares the memory of the tensor, so do not write to it."""
    try:
        return np.from_dlpack(tensor)
    except (BufferError, RuntimeError, TypeError):  # numpy does not have the dtype
        return np.asarray(tensor.numpy())


def constant(array: Array) -> Any:
    """A Relax constant of `array`, whose memory it may share."""
    return relax.const(_tensor(np.asarray(array)))


def _tensor(array: Array) -> Any:
    # A small copy is cheaper than an exchange, and DLPack refuses read-only memory.
    if array.nbytes < 1 << 16 or not array.flags.writeable or not array.flags.c_contiguous:
        return tvm.runtime.tensor(array)
    try:
        return tvm.runtime.from_dlpack(array)
    except (BufferError, RuntimeError):  # DLPack does not have the dtype
        return tvm.runtime.tensor(array)
