"""Keep apart calls that TVM may fuse with nothing: such that write to a tensor, among others."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from collage_dsl.backends.tvm import has_root_block
from collage_dsl.frontend.dataflow import values_in
from collage_dsl.frontend.from_relax import functions_of
from collage_dsl.realization.replaced import with_blocks, with_relax_functions

_IN_PLACE = ("relax.call_tir_inplace", "relax.call_inplace_packed")
"""Operators that write to their arguments."""


def writes(binding: Any) -> bool:
    """Whether a binding is a call that writes to its arguments."""
    value = binding.value
    is_operator = isinstance(value, tvm.ir.Call) and isinstance(value.op, tvm.ir.Op)
    return is_operator and str(value.op.name) in _IN_PLACE


def packed_writes(module: tvm.IRModule) -> set[str]:
    """The names of the functions in which a packed function writes to a tensor, and returns it."""
    found = set()
    for var, function in module.functions_items():
        calls: list[Any] = []
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, calls.append)
        if any(_is_packed_write(each) for each in calls):
            found.add(str(var.name_hint))
    return found


def _is_packed_write(expr: Any) -> bool:
    is_packed = isinstance(expr, tvm.ir.Call) and expr.op == _INPLACE_PACKED
    return is_packed and isinstance(expr.ty, relax.TensorType | relax.TupleType)


_INPLACE_PACKED = tvm.ir.Op.get("relax.call_inplace_packed")


def with_own_blocks(module: tvm.IRModule) -> tvm.IRModule:
    """
    `module` with a dataflow block of its own for each call that writes to its arguments, and for
    each call of a PrimFunc without a root block.

    FuseOps of TVM 0.27 calls what it fuses in the place of the last call, which may be after the
    write. It fuses within one dataflow block. So the write itself is fused with nothing.
    RewriteDataflowReshape refuses a PrimFunc without a root block, unless what it computes is used
    outside of its dataflow block. FuseOps joins the blocks again, so both need this.
    """
    function_of = functions_of(module)

    def is_alone(binding: Any) -> bool:
        call = binding.value
        is_compiled = isinstance(call, tvm.ir.Call) and call.op == _CALL_TIR
        return writes(binding) or (is_compiled and not has_root_block(function_of(call.args[0])))

    return with_relax_functions(module, lambda function: _divided(function, is_alone))


_CALL_TIR = tvm.ir.Op.get("relax.call_tir")


def _divided(function: Any, is_alone: Callable[[Any], bool]) -> Any:
    crossing: dict[int, Any] = {}

    def sequence(old: Any) -> Any:
        blocks = [part for block in old.blocks for part in _parts(block, crossing, is_alone)]
        if len(blocks) == len(old.blocks):
            return old
        return with_blocks(old, blocks)

    divided = tvm_ffi.structural_map(function, (relax.SeqExpr, sequence))
    if not crossing:
        return divided
    renamed = (tvm.ir.Var, lambda var: crossing.get(hash(var), var))
    return tvm_ffi.structural_map(divided, renamed)


def _parts(block: Any, crossing: dict[int, Any], is_alone: Callable[[Any], bool]) -> Sequence[Any]:
    """
    The blocks that a block is divided into. Variables that one of them binds for another one are
    added to `crossing`, by their hash, each with a variable that is known outside its block.
    """
    bindings = list(block.bindings)
    alone = [place for place, each in enumerate(bindings) if is_alone(each)]
    if not alone or not isinstance(block, relax.DataflowBlock):
        return [block]
    ends = sorted({0, *alone, *(place + 1 for place in alone), len(bindings)})
    bound: set[int] = set()
    parts = []
    for start, end in pairwise(ends):
        part = bindings[start:end]
        for var in (var for each in part for var in values_in(each)):
            if hash(var) in bound and hash(var) not in crossing:
                crossing[hash(var)] = relax.Var(var.name, var.ty)
        bound |= {hash(each.var) for each in part if isinstance(each.var, relax.DataflowVar)}
        parts.append(relax.DataflowBlock(part, block.span))
    return parts
