"""The symbols of functions in a library, with the prefix that the module may ask for."""

import tvm
import tvm_ffi
from tvm import relax

from collage_dsl.realization.native import is_prim_func
from collage_dsl.realization.replaced import global_var, with_functions

_PREFIX = "system_lib_prefix"
_SYMBOL = "global_symbol"


def with_entry(module: tvm.IRModule) -> tvm.IRModule:
    """
    `module`, in which `main` is public if no function of Relax is. TVM removes a private function
    that nothing calls, and that would be all of them. The symbol of a library's kernel is not
    one to be called by.
    """
    functions = dict(module.functions_items())
    inside = {var: each for var, each in functions.items() if isinstance(each, relax.Function)}
    main = next((var for var in inside if str(var.name_hint) == "main"), None)
    attrs = [each.attrs or {} for each in inside.values()]
    if main is None or any(each.get(_SYMBOL) and not each.get("Codegen") for each in attrs):
        return module
    functions[main] = functions[main].with_attr(_SYMBOL, "main")
    return with_functions(module, functions)


def with_symbols(module: tvm.IRModule) -> tvm.IRModule:
    """
    `module` after `AttachGlobalSymbol`. PrimFuncs of a module with the attribute
    `system_lib_prefix` have that prefix. The pass of TVM 0.27 cannot add it where a PrimFunc views
    a tensor in another shape, as scheduled kernels do.
    """
    prefix = (module.attrs or {}).get(_PREFIX)
    if not prefix:
        return relax.transform.AttachGlobalSymbol()(module)
    renamed = {
        var: global_var(f"{prefix}{var.name_hint}", var.ty)
        for var, function in module.functions_items()
        if is_prim_func(function)
    }
    names = (tvm.ir.GlobalVar, lambda var: renamed.get(var, var))
    functions = {
        renamed.get(var, var): tvm_ffi.structural_map(function, names)
        for var, function in module.functions_items()
    }
    plain = with_functions(module, functions).without_attr(_PREFIX)
    attached = relax.transform.AttachGlobalSymbol()(plain)
    return attached.with_attr(_PREFIX, prefix)
