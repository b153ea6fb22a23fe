"""Let native kernels take tensors that begin anywhere: unaligned, and inside another tensor."""

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx


def with_any_alignment(function: Any) -> Any:
    """
    `function` that assumes only that tensors start at a multiple of the size of their elements,
    and that may start later than their memory does.

    TVM assumes that tensors start at multiples of 64 bytes. Arrays of other libraries rarely do:
    those of numpy start at multiples of 16. TVM's code crashes on such arrays, and refuses parts of
    other tensors. The processors that we compile for are as fast without these assumptions.
    """
    buffers = [each for each in function.params if tirx.buffer.is_buffer_var(each)]
    relaxed = {buffer: _anywhere(buffer) for buffer in buffers}
    views = {
        declared.buffer: _view(declared.buffer, relaxed[parameter])
        for declared in _declared(function.body)
        for parameter in buffers
        if tvm_ffi.structural_equal(declared.data, tirx.buffer.buffer_data(parameter))
    }
    changed = {**relaxed, **views}
    offsets = {hash(new): new.elem_offset for new in changed.values()}

    def pointer(call: Any) -> Any:
        """A pointer to an element of a tensor, which lies after the offset."""
        if call.op != _POINTER or getattr(call.args[1], "op", None) != _DATA:
            return call
        offset = offsets.get(hash(call.args[1].args[0]))
        if offset is None:
            return call
        kind, data, first, *rest = call.args
        return tvm.ir.Call(call.op, [kind, data, first + offset, *rest], ret_ty=call.ty)

    swap = (tvm.ir.Var, lambda variable: changed.get(variable, variable))
    return tvm_ffi.structural_map(function, (swap, (tvm.ir.Call, pointer)))


_POINTER = tvm.ir.Op.get("tirx.tvm_access_ptr")
_DATA = tvm.ir.Op.get("tirx.buffer_data")


def _declared(body: Any) -> list[Any]:
    """The declarations of buffers in `body`."""
    found: list[Any] = []

    def visit(declared: Any) -> Any:
        found.append(declared)
        return declared

    tvm_ffi.structural_map(body, (tirx.DeclBuffer, visit))
    return found


def _anywhere(buffer: Any) -> Any:
    return tirx.decl_buffer(
        buffer.shape,
        buffer.dtype,
        buffer.name,
        strides=buffer.strides,
        elem_offset=tirx.Var(f"{buffer.name}_offset", "int64"),
        scope=buffer.scope(),
        data_alignment=_bytes(buffer.dtype),
        offset_factor=1,
    )


def _view(view: Any, parameter: Any) -> Any:
    """`view`, the memory of a parameter in another shape, which begins where the parameter does."""
    return tirx.decl_buffer(
        view.shape,
        view.dtype,
        view.name,
        elem_offset=parameter.elem_offset,
        scope=view.scope(),
        data_alignment=_bytes(view.dtype),
        offset_factor=1,
    )


def _bytes(dtype: Any) -> int:
    return max(1, tvm.DataType(str(dtype)).bits // 8)
