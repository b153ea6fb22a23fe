"""The symbols of functions in a library, with the prefix that the module may ask for."""

import tvm
import tvm_ffi
from tvm import relax

from collage_dsl.realization.native import is_prim_func

_PREFIX = "system_lib_prefix"


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
        var: _renamed(var, f"{prefix}{var.name_hint}")
        for var, function in module.functions_items()
        if is_prim_func(function)
    }
    names = (tvm.ir.GlobalVar, lambda var: renamed.get(var, var))
    functions = {
        renamed.get(var, var): tvm_ffi.structural_map(function, names)
        for var, function in module.functions_items()
    }
    plain = tvm.IRModule(functions, attrs=module.attrs, global_infos=module.global_infos)
    attached = relax.transform.AttachGlobalSymbol()(plain.without_attr(_PREFIX))
    return attached.with_attr(_PREFIX, prefix)


def _renamed(var: tvm.ir.GlobalVar, name: str) -> tvm.ir.GlobalVar:
    new = tvm.ir.GlobalVar(name)
    relax.expr._update_type(new, var.ty)
    return new
