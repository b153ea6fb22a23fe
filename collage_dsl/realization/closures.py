"""Results of closures that keep their types in the VM."""

from collections.abc import Iterator
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

_INVOKE = tvm.ir.Op.get("relax.invoke_closure")


def with_types_of_closures(module: tvm.IRModule) -> tvm.IRModule:
    """
    `module`, which has no dataflow blocks, with a cast of what each closure returns.

    `LowerRuntimeBuiltin` of TVM 0.27 forgets the type of the result: then TVM refuses the result
    as the argument of a function.
    """
    for var, function in module.functions_items():
        if isinstance(function, relax.Function):
            module[var] = tvm_ffi.structural_map(function, (relax.BindingBlock, _cast))
    return module


def _cast(block: Any) -> Any:
    if not any(map(_is_invoked, block.bindings)):
        return block
    bindings = [new for binding in block.bindings for new in _bindings(binding)]
    return relax.BindingBlock(bindings, block.span)


def _bindings(binding: Any) -> Iterator[Any]:
    if not _is_invoked(binding):
        yield binding
        return
    call, var = binding.value, binding.var
    anything = relax.AnyType()
    plain = relax.Call(call.op, call.args, call.attrs, [anything], call.span)
    relax.expr._update_type(plain, anything)
    result = relax.Var(f"{var.name}_result", anything)
    yield relax.VarBinding(result, plain, binding.span)
    yield relax.MatchCast(var, result, var.ty, binding.span)


def _is_invoked(binding: Any) -> bool:
    value = binding.value
    is_invoked = isinstance(value, tvm.ir.Call) and value.op == _INVOKE
    return is_invoked and not isinstance(binding.var.ty, relax.AnyType)
