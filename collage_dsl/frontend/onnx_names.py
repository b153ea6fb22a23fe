"""Name the variables of a function that was made of a model, and remove those of no use."""

from collections.abc import Mapping
from typing import Any

import tvm
import tvm_ffi
from tvm import relax


def named(function: Any, names: dict[Any, str]) -> Any:
    """
    `function` without unused values. Its variables have the names in `names`; those that have none
    are added, with a name derived from that of the next value that has one.
    """
    function = _without_unused(function)
    waiting: list[Any] = []
    for binding in function.body.blocks[0].bindings:
        name = names.get(binding.var)
        if name is None:
            waiting.append(binding)
            continue
        for auxiliary in waiting:
            names[auxiliary.var] = f"{name}.{_short(auxiliary.value)}"
        waiting.clear()
    return _renamed(function, names)


def _without_unused(function: Any) -> Any:
    """`function`, which has no effects, without what its result does not need."""
    (block,) = function.body.blocks
    needed = {hash(var) for var in relax.analysis.free_vars(function.body.body)}
    kept = []
    for binding in reversed(block.bindings):
        if hash(binding.var) in needed:
            kept.append(binding)
            needed |= {hash(var) for var in relax.analysis.free_vars(binding.value)}
    body = relax.SeqExpr([relax.DataflowBlock(kept[::-1])], function.body.body)
    relax.expr._update_type(body, function.body.ty)
    return relax.Function(function.params, body, function.ret_ty, function.is_pure, function.attrs)


def _renamed(function: Any, names: Mapping[Any, str]) -> Any:
    """`function` with new variables that have the names in `names`."""
    known = {hash(var): name for var, name in names.items()}
    made: dict[int, Any] = {}

    def renamed(var: Any) -> Any:
        key = hash(var)
        if key in known and key not in made:
            made[key] = type(var)(known[key], var.ty)
        return made.get(key, var)

    return tvm_ffi.structural_map(function, (tvm.ir.Var, renamed))


def _short(value: Any) -> str:
    """`conv2d` for a call of `relax.nn.conv2d`."""
    op = getattr(value, "op", None)
    return str(op.name).rsplit(".", 1)[-1] if isinstance(op, tvm.ir.Op) else "item"
