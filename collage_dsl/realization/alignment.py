"""Let native kernels take tensors that are only aligned to the size of their elements."""

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx


def with_any_alignment(function: Any) -> Any:
    """
    `function` that assumes only that tensors start at a multiple of the size of their elements.

    TVM assumes that tensors start at multiples of 64 bytes. Arrays of other libraries rarely do:
    those of numpy start at multiples of 16. TVM's code crashes on such arrays. The processors that
    we compile for are as fast without the assumption.
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
