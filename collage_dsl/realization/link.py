"""Primitive kernels linked to a library: their composites become kernels of the library."""

from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from collage_dsl.realization.place import TARGET


def linked(module: tvm.IRModule) -> tvm.IRModule:
    """
    `module` in which each primitive kernel that has inner `Composite` functions is an ordinary
    function. It calls a kernel of the library for each composite: that which the label begins
    with, say `onednn.conv`. TVM fuses what is around these calls.
    """
    result = module
    for var, function in module.functions_items():
        if isinstance(function, relax.Function) and _is_linked(function):
            if result is module:
                functions = dict(module.functions_items())
                result = tvm.IRModule(functions, module.attrs, module.global_infos)
                result = result.with_attrs(dict(module.attrs or {}))
            _link(result, var, function)
    return result


def _is_linked(function: Any) -> bool:
    return bool((function.attrs or {}).get("Primitive")) and bool(_composites(function))


def _composites(function: Any) -> dict[int, Any]:
    """The binding of each inner function, by its variable."""
    every = (binding for block in function.body.blocks for binding in block.bindings)
    return {hash(b.var): b for b in every if isinstance(b.value, relax.Function)}


def _link(module: tvm.IRModule, var: Any, function: Any) -> None:
    """Put `function`, and a function of a library for each of its composites, into `module`."""
    callees = {}
    for key, binding in _composites(function).items():
        name = f"{var.name_hint}_{binding.var.name}"
        callees[key] = _library_kernel(module, name, binding.value, function.attrs[TARGET])
    blocks = [_without(block, callees) for block in function.body.blocks]
    body = relax.SeqExpr(blocks, function.body.body)
    relax.expr._update_type(body, function.body.ty)
    plain = relax.Function(function.params, body, function.ret_ty, function.is_pure, function.attrs)
    changed = tvm_ffi.structural_map(
        plain, (tvm.ir.Var, lambda each: callees.get(hash(each), each))
    )
    module[var] = changed.without_attr("Primitive")


def _library_kernel(module: tvm.IRModule, name: str, composite: Any, target: Any) -> Any:
    """The global variable of the library's kernel of an inner function."""
    library = str(composite.attrs["Composite"]).partition(".")[0]
    callee = tvm.ir.GlobalVar(name)
    relax.expr._update_type(callee, composite.ty)
    marks = {"Codegen": library, "global_symbol": name, TARGET: target}
    module[callee] = composite.without_attr("Composite").with_attrs(marks)
    return callee


def _without(block: Any, callees: dict[int, Any]) -> Any:
    kept = [binding for binding in block.bindings if hash(binding.var) not in callees]
    return (
        relax.DataflowBlock(kept)
        if isinstance(block, relax.DataflowBlock)
        else relax.BindingBlock(kept)
    )
