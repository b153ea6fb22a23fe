"""Native kernels that read and write tensors at any address that suits the elements."""

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx


def with_any_alignment(function: Any) -> Any:
    """
    A PrimFunc that assumes of a tensor only what its elements need.

    TVM assumes that tensors start at multiples of 64 bytes, which arrays of other libraries
    rarely do: numpy's start at multiples of 16. Code that is given less crashes. The processors
    that we compile for are as fast without the assumption.
    """
    buffers = (each for each in function.params if tirx.buffer.is_buffer_var(each))
    relaxed = {buffer: _aligned_to_elements(buffer) for buffer in buffers}
    swap = (tvm.ir.Var, lambda variable: relaxed.get(variable, variable))
    return tvm_ffi.structural_map(function, (swap,))


def _aligned_to_elements(buffer: Any) -> Any:
    return tirx.decl_buffer(
        buffer.shape,
        buffer.dtype,
        buffer.name,
        strides=buffer.strides,
        elem_offset=buffer.elem_offset,
        scope=buffer.scope(),
        data_alignment=_bytes(buffer.dtype),
        offset_factor=buffer.offset_factor,
    )


def _bytes(dtype: Any) -> int:
    return max(1, tvm.DataType(str(dtype)).bits // 8)
