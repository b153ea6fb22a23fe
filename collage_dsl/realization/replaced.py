"""Modules, functions and bodies of Relax in which a part is replaced, and all else as it was."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm
from tvm import relax


def with_functions(module: tvm.IRModule, functions: Mapping[Any, Any]) -> tvm.IRModule:
    """A new module with the attributes of `module` and these functions, by global variable."""
    return tvm.IRModule(functions, attrs=module.attrs, global_infos=module.global_infos)


def with_relax_functions(module: tvm.IRModule, change: Callable[[Any], Any]) -> tvm.IRModule:
    """A new module with what `change` makes of each Relax function; others stay."""
    functions = {
        var: change(each) if isinstance(each, relax.Function) else each
        for var, each in module.functions_items()
    }
    return with_functions(module, functions)


def with_body(function: Any, body: Any, params: Sequence[Any] | None = None) -> Any:
    """The Relax function `function` with another body, and with other parameters if given."""
    return relax.Function(
        function.params if params is None else params,
        body,
        function.ret_ty,
        function.is_pure,
        function.attrs,
        function.span,
    )


def with_blocks(sequence: Any, blocks: Sequence[Any]) -> Any:
    """The body `sequence` of a Relax function with other blocks that give a result of its type."""
    return typed(relax.SeqExpr(list(blocks), sequence.body, sequence.span), sequence.ty)


def typed(expr: Any, type_: Any) -> Any:
    """A new `expr`, which has no type yet, with `type_`."""
    relax.expr._update_type(expr, type_)
    return expr


def global_var(name: str, type_: Any) -> tvm.ir.GlobalVar:
    """A new variable for a function of this type."""
    return typed(tvm.ir.GlobalVar(name), type_)
