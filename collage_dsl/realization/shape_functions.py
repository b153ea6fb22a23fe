"""The functions that compute sizes as a model runs, in the same order whenever a model is built."""

import tvm
from tvm import relax, tirx

from collage_dsl.realization.native import is_prim_func


def with_shape_functions(module: tvm.IRModule) -> tvm.IRModule:
    """
    `module` after `VMShapeLower`, whose functions store sizes in the order of their places. The
    pass of TVM 0.27 stores them in the order of hashes, and these are of addresses: each process
    would make another library of the same model. No size is computed from another.
    """
    before = {var.name_hint for var in module.get_global_vars()}
    module = relax.transform.VMShapeLower()(module)
    for var, function in module.functions_items():
        if var.name_hint not in before and is_prim_func(function):
            module[var] = function.with_body(_in_order(function.body))
    return module


def _in_order(body: tirx.Stmt) -> tirx.Stmt:
    if not isinstance(body, tirx.SeqStmt):
        return body
    return tirx.SeqStmt(sorted(body.seq, key=lambda store: int(store.indices[0])))
