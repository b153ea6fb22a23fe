"""PrimFuncs of any size that kernels call, each for the sizes that it is called on."""

from collections.abc import Iterator, Mapping
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx

from collage_dsl.realization.errors import BuildError
from collage_dsl.realization.place import unique
from collage_dsl.realization.replaced import global_var, typed, with_functions

_CALL_TIR = tvm.ir.Op.get("relax.call_tir")


def specialized(module: tvm.IRModule) -> tvm.IRModule:
    """
    `module` in which primitive functions, which FuseTIR fuses, call PrimFuncs whose dimensions are
    those of the call.

    FuseTIR of TVM 0.27 refuses a PrimFunc of any size that takes what the kernel itself has made,
    unless its sizes in the call are names too, each another one. Numbers and formulas, such as
    `n * 2`, it refuses. It also refuses sizes of 32 bits, as `T.Buffer((4, 8), "float32")` has. A
    parameter that is a size, such as `n: T.int64`, is left out.
    """
    functions = dict(module.functions_items())
    taken = {str(var.name_hint) for var in functions}

    def call(expr: Any) -> Any:
        if expr.op != _CALL_TIR or not isinstance(functions[expr.args[0]], tirx.PrimFunc):
            return expr
        callee = expr.args[0]
        function = functions[callee]
        sizes = dict(_sizes(function, expr))
        if _is_renaming(sizes) and not _has_short_sizes(function):
            return expr
        own_function = _replaced(function, sizes)
        own = global_var(unique(str(callee.name_hint), taken), own_function.ty)
        functions[own] = own_function
        given = zip(function.params, expr.args[1].fields, strict=False)  # results follow
        arguments = [value for param, value in given if hash(param) not in sizes]
        passed = [own, tvm.ir.Tuple(arguments), *expr.args[2:]]
        return typed(relax.Call(expr.op, passed, expr.attrs, expr.ty_args), expr.ty)

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
            if len(param.shape) != len(type_.shape.values):
                called, shape = call.args[0].name_hint, list(param.shape)
                raise BuildError(f"`{called}` is called on {type_}, in place of the shape {shape}")
            for name, size in zip(param.shape, type_.shape.values, strict=True):
                if isinstance(name, tvm.ir.Var):
                    yield hash(name), size


def _is_renaming(sizes: Mapping[int, Any]) -> bool:
    """Whether all that is known of the dimensions is another name for each."""
    names = {hash(size) for size in sizes.values() if isinstance(size, tvm.ir.Var)}
    return len(names) == len(sizes)


def _has_short_sizes(function: Any) -> bool:
    types = [each.ty for each in function.params if isinstance(each.ty, tirx.BufferType)]
    return any(str(size.ty.dtype) == "int32" for type_ in types for size in type_.shape)


def _replaced(function: Any, sizes: Mapping[int, Any]) -> Any:
    def size(var: Any) -> Any:
        known = sizes.get(hash(var), var)
        return known.astype(str(var.ty.dtype)) if known is not var else var

    given = {param: size(param) for param in function.params if hash(param) in sizes}
    function = function.specialize(given) if given else function
    function = function.without_attr("global_symbol")  # so that nothing keeps it once it is fused
    sized = tvm_ffi.structural_map(function, (tvm.ir.Var, size))
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


def _long(size: Any) -> Any:
    """A size of 32 bits as one of 64, where it is a number or a cast; anything else as it is."""
    match size:
        case tirx.IntImm() if str(size.ty.dtype) == "int32":
            return tirx.IntImm("int64", size.value)
        case tirx.Cast() if str(size.value.ty.dtype) == "int64":
            return size.value
    return size
