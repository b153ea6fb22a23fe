"""Simplify the buffers of TVM's scans, sorts and samplings, so that FuseTIR can fuse them."""

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.layout import S, TileLayout

from collage_dsl.realization.replaced import with_functions

_ALIGNMENT = 64
"""Where TVM's memory begins, in bytes. `with_any_alignment` lets tensors begin anywhere later."""


def with_plain_buffers(module: tvm.IRModule, kept: set[str]) -> tvm.IRModule:
    """
    `module` in which buffers of PrimFuncs have no variable offset, the usual alignment, and no
    layout if it is the usual one. PrimFuncs with names in `kept` are not changed.

    The buffers of scans, sorts and samplings differ from this. FuseTIR of TVM 0.27 does not replace
    the dimensions in a layout by those of the caller, and refuses to fuse two buffers whose
    layouts, offsets or alignments differ.
    """
    functions = dict(module.functions_items())
    for var, function in module.functions_items():
        if isinstance(function, tirx.PrimFunc) and var.name_hint not in kept:
            functions[var] = tvm_ffi.structural_map(function, (tirx.BufferType, _plain))
    return with_functions(module, functions)


def _plain(buffer: Any) -> Any:
    has_usual_layout = buffer.layout is not None and tvm_ffi.structural_equal(
        buffer.layout, TileLayout(S[tuple(buffer.shape)])
    )
    has_variable_offset = isinstance(buffer.elem_offset, tvm.ir.Var)
    is_aligned = buffer.data_alignment == _ALIGNMENT
    if is_aligned and not has_usual_layout and not has_variable_offset:
        return buffer
    return tirx.BufferType(
        buffer.dtype,
        buffer.storage_scope,
        buffer.shape,
        buffer.strides,
        tirx.IntImm("int64", 0) if has_variable_offset else buffer.elem_offset,
        _ALIGNMENT,
        buffer.offset_factor,
        None if has_usual_layout else buffer.layout,
        buffer.allocated_addr,
    )
