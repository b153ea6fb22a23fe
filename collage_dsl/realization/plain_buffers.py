"""PrimFuncs that TVM writes with buffers of their own kind, as FuseTIR can fuse them."""

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.layout import S, TileLayout


def with_plain_buffers(module: tvm.IRModule, kept: set[str]) -> tvm.IRModule:
    """
    `module` in which the buffers of PrimFuncs, but those of the names `kept`, have no layout where
    it is the usual one, and no variable offset.

    Scans and samplings have such buffers. FuseTIR of TVM 0.27 does not put the dimensions of its
    caller into a layout, and refuses to fuse two buffers that differ in such a thing.
    """
    functions = dict(module.functions_items())
    for var, function in module.functions_items():
        if isinstance(function, tirx.PrimFunc) and var.name_hint not in kept:
            functions[var] = tvm_ffi.structural_map(function, (tirx.BufferType, _plain))
    return tvm.IRModule(functions, attrs=module.attrs, global_infos=module.global_infos)


def _plain(buffer: Any) -> Any:
    has_usual_layout = buffer.layout is not None and tvm_ffi.structural_equal(
        buffer.layout, TileLayout(S[tuple(buffer.shape)])
    )
    has_variable_offset = isinstance(buffer.elem_offset, tvm.ir.Var)
    if not has_usual_layout and not has_variable_offset:
        return buffer
    return tirx.BufferType(
        buffer.dtype,
        buffer.storage_scope,
        buffer.shape,
        buffer.strides,
        tirx.IntImm("int64", 0) if has_variable_offset else buffer.elem_offset,
        buffer.data_alignment,
        buffer.offset_factor,
        None if has_usual_layout else buffer.layout,
        buffer.allocated_addr,
    )
