"""PrimFuncs of any size that kernels call, each for the sizes that it is called on."""

from collections.abc import Iterator, Mapping
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx

from collage_dsl.realization.place import unique
from collage_dsl.realization.replaced import global_var, typed, with_functions

_CALL_TIR = tvm.ir.Op.get("relax.call_tir")


def specialized(module: tvm.IRModule) -> tvm.IRModule:
    """
    `module` in which primitive functions, which FuseTIR fuses, call PrimFuncs whose dimensions are
    those of the call.

    FuseTIR of TVM 0.27 refuses a PrimFunc of any size that takes what the kernel itself has made,
    unless its sizes in the call are names too, each another one. Numbers and formulas, such as
    `n * 2`, it refuses. It also refuses numbers of 32 bits, as `T.Buffer((4, 8), "float32")` has.
    """
    functions = dict(module.functions_items())
    taken = {str(var.name_hint) for var in functions}

    def call(expr: Any) -> Any:
        if expr.op != _CALL_TIR or not isinstance(functions[expr.args[0]], tirx.PrimFunc):
            return expr
        callee = expr.args[0]
        sizes = dict(_sizes(functions[callee], expr))
        if _is_renaming(sizes) and not _has_short_sizes(functions[callee]):
            return expr
        own = global_var(unique(str(callee.name_hint), taken), callee.ty)
        functions[own] = _replaced(functions[callee], sizes)
        changed = relax.Call(expr.op, [own, *expr.args[1:]], expr.attrs, expr.ty_args)
        return typed(changed, expr.ty)

    for var, function in module.functions_items():
        is_primitive = bool((function.attrs or {}).get("Primitive"))
        if isinstance(function, relax.Function) and is_primitive:
            functions[var] = tvm_ffi.structural_map(function, (tvm.ir.Call, call))
    return with_functions(module, functions)


def _sizes(function: Any, call: Any) -> Iterator[tuple[int, Any]]:
    """What the dimensions of a PrimFunc are in a call, by the hash of their names."""
    results = call.ty.fields if isinstance(call.ty, relax.TupleType) else [call.ty]
    types = [*(argument.ty for argument in call.args[1].fields), *results]
    for param, type_ in zip(function.params, types, strict=False):
        if isinstance(type_, relax.TensorType) and isinstance(type_.shape, relax.ShapeExpr):
            for name, size in zip(param.shape, type_.shape.values, strict=True):
                if isinstance(name, tvm.ir.Var):
                    yield hash(name), size


def _is_renaming(sizes: Mapping[int, Any]) -> bool:
    """Whether all that is known of the dimensions is another name for each."""
    names = {hash(size) for size in sizes.values() if isinstance(size, tvm.ir.Var)}
    return len(names) == len(sizes)


def _has_short_sizes(function: Any) -> bool:
    types = [each.ty for each in function.params if isinstance(each.ty, tirx.BufferType)]
    return any(_long(size) is not size for type_ in types for size in type_.shape)


def _replaced(function: Any, sizes: Mapping[int, Any]) -> Any:
    sized = tvm_ffi.structural_map(function, (tvm.ir.Var, lambda var: sizes.get(hash(var), var)))
    return tvm_ffi.structural_map(sized, (tirx.BufferType, _with_long_sizes))


def _with_long_sizes(buffer: Any) -> Any:
    return tirx.BufferType(
        buffer.dtype,
        buffer.storage_scope,
        [_long(size) for size in buffer.shape],
        buffer.strides,
        _long(buffer.elem_offset),
        buffer.data_alignment,
        buffer.offset_factor,
        buffer.layout,
        buffer.allocated_addr,
    )


def _long(number: Any) -> Any:
    """A number of 32 bits as one of 64; anything else as it is."""
    is_short = isinstance(number, tirx.IntImm) and str(number.ty.dtype) == "int32"
    return tirx.IntImm("int64", number.value) if is_short else number
