"""Library kernels that return what they compute, since it cannot be allocated before."""

from collections.abc import Collection
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

_CALL_DPS = tvm.ir.Op.get("relax.call_dps_packed")


def returning(module: tvm.IRModule, kernels: Collection[str]) -> tvm.IRModule:
    """
    `module` in which a kernel of a library, which has one of the names `kernels`, is called with
    its inputs only, and returns its outputs, where an output has a shape that is found as the model
    runs, or an input or output is no tensor. Nor is it given dimensions: those of its tensors are
    enough.
    """

    def change(call: Any) -> Any:
        is_packed = call.op == _CALL_DPS and isinstance(call.args[0], relax.ExternFunc)
        is_ours = is_packed and str(call.args[0].global_symbol) in kernels
        return _returning(call) if is_ours else call

    for var, function in module.functions_items():
        if isinstance(function, relax.Function):
            changed = tvm_ffi.structural_map(function, (tvm.ir.Call, change))
            if not changed.same_as(function):
                module[var] = changed
    return module


def _returning(call: Any) -> Any:
    (result,) = call.ty_args
    given = list(call.args[1].fields)
    operands = [each for each in given if not isinstance(each.ty, relax.ShapeType)]
    if _is_allocated(result) and not any(_is_object(each.ty) for each in operands):
        if len(operands) == len(given):
            return call
        types = list(result.fields) if isinstance(result, relax.TupleType) else result
        return relax.call_dps_packed(call.args[0], relax.Tuple(operands), types)
    return relax.call_pure_packed(call.args[0], *operands, ty_args=[result])


def _is_allocated(type_: Any) -> bool:
    """Whether memory for values of this type can be allocated before they are computed."""
    match type_:
        case relax.TensorType():
            return type_.dtype is not None and isinstance(type_.shape, relax.ShapeExpr)
        case relax.TupleType():
            return all(map(_is_allocated, type_.fields))
    return False


def _is_object(type_: Any) -> bool:
    return isinstance(type_, relax.ObjectType | relax.AnyType)
