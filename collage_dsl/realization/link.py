"""Make library kernels of the composites in native kernels that are linked to a library."""

from collections.abc import Mapping
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from collage_dsl.realization.kernel import BACKEND, TARGET, library_of
from collage_dsl.realization.place import unique
from collage_dsl.realization.replaced import global_var, with_blocks, with_body, with_functions

_CALL_TIR = tvm.ir.Op.get("relax.call_tir")


def linked(module: tvm.IRModule) -> tvm.IRModule:
    """
    `module` in which each primitive kernel with inner `Composite` functions becomes an ordinary
    function. For each composite it calls a kernel of the library that the label begins with:
    `onednn` for `onednn.conv`. TVM fuses the operators around these calls.
    """
    functions = dict(module.functions_items())
    taken = {str(var.name_hint) for var in functions}
    for var, function in module.functions_items():
        if _is_primitive(function) and (composites := _composites(function)):
            callees = {}
            for key, composite in composites.items():
                name = unique(f"{var.name_hint}_{_library(composite)}", taken)
                made = _library_kernel(composite, name, function.attrs[TARGET])
                callees[key] = global_var(name, made.ty)
                functions[callees[key]] = made
            functions[var] = _calling(function, callees)
    if len(functions) == len(module.functions):
        return module
    return with_functions(module, functions)


def is_linked(function: Any) -> bool:
    """Whether `linked` made this function from a primitive kernel."""
    attrs = function.attrs or {}
    is_kernel = isinstance(function, relax.Function) and attrs.get(BACKEND) is not None
    return is_kernel and not attrs.get("Primitive")


def with_own_functions(module: tvm.IRModule) -> tvm.IRModule:
    """
    `module` in which each linked kernel calls only PrimFuncs that nothing else calls, so that they
    can be scheduled for its target.
    """
    functions = dict(module.functions_items())
    taken = {str(var.name_hint) for var in functions}
    for var, function in module.functions_items():
        if not is_linked(function):
            continue
        own = {}
        for called in called_functions(function):
            name = unique(f"{var.name_hint}_{called.name_hint}", taken)
            own[hash(called)] = global_var(name, called.ty)
            functions[own[hash(called)]] = functions[called]
        functions[var] = _replaced(function, own)
    if len(functions) == len(module.functions):
        return module
    return relax.transform.DeadCodeElimination()(with_functions(module, functions))


def called_functions(function: Any) -> list[Any]:
    """The global variables of the PrimFuncs that a linked kernel calls, each once."""
    bindings = (binding for block in function.body.blocks for binding in block.bindings)
    calls = [b.value for b in bindings if isinstance(b.value, tvm.ir.Call)]
    callees = {hash(call.args[0]): call.args[0] for call in calls if call.op == _CALL_TIR}
    return list(callees.values())


def _is_primitive(function: Any) -> bool:
    return isinstance(function, relax.Function) and bool((function.attrs or {}).get("Primitive"))


def _composites(function: Any) -> dict[int, Any]:
    """The inner functions, by the hash of their variable."""
    every = (binding for block in function.body.blocks for binding in block.bindings)
    return {hash(b.var): b.value for b in every if isinstance(b.value, relax.Function)}


def _library(composite: Any) -> str:
    return library_of(str(composite.attrs["Composite"]))


def _library_kernel(composite: Any, name: str, target: Any) -> Any:
    """The kernel of a library that computes one composite."""
    builder = relax.BlockBuilder()
    with builder.function(name, composite.params, private=True):
        callee = builder.emit(composite)
        builder.emit_func_output(builder.emit(relax.Call(callee, composite.params)))
    (function,) = builder.get().functions.values()
    marks = {"Codegen": _library(composite), "global_symbol": name, TARGET: target}
    return relax.utils.copy_with_new_vars(function).with_attrs(marks)


def _calling(function: Any, callees: Mapping[int, Any]) -> Any:
    """
    The kernel with calls of `callees` in place of its inner functions, in one dataflow block, in
    which TVM fuses.
    """
    every = [binding for block in function.body.blocks for binding in block.bindings]
    kept = [binding for binding in every if hash(binding.var) not in callees]
    returned = {hash(var) for var in relax.analysis.free_vars(function.body.body)}
    inner = [binding.var for binding in kept if hash(binding.var) not in returned]
    local = {hash(var): relax.DataflowVar(var.name, var.ty) for var in inner}
    plain = with_body(function, with_blocks(function.body, [relax.DataflowBlock(kept)]))
    return _replaced(plain, {**callees, **local}).without_attr("Primitive")


def _replaced(function: Any, new: Mapping[int, Any]) -> Any:
    """`function` with the variables in `new`, by hash, replaced."""
    variables = (tvm.ir.Var, tvm.ir.GlobalVar)
    return tvm_ffi.structural_map(function, (variables, lambda var: new.get(hash(var), var)))
