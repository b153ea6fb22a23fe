"""Plan the memory of tensors, with the sizes that they have as the model runs."""

import operator
from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import reduce
from typing import Any

import tvm
from tvm import relax, tirx

from collage_dsl.realization.crossing import virtual_devices
from collage_dsl.realization.replaced import with_blocks, with_body

_STORAGE = tvm.ir.Op.get("relax.memory.alloc_storage")
_TENSOR = tvm.ir.Op.get("relax.memory.alloc_tensor")


def with_planned_memory(module: tvm.IRModule, written: Collection[str]) -> tvm.IRModule:
    """
    `module` with the memory of tensors planned, but in functions with an `If`, in those that are
    `written` (see `packed_writes`), and not where values are on several devices. TVM 0.27 would
    have one branch use what only the other one allocates, take a tensor that a packed function
    writes to and returns for another one than it returns, and reuse a block for any later tensor,
    whichever device the block is on.
    """
    if len(virtual_devices(module)) > 1:
        return module
    planned = relax.transform.StaticPlanBlockMemory()(module)
    for var, function in module.functions_items():
        if not isinstance(function, relax.Function):
            continue
        is_left = var.name_hint in written or _has_branches(function)
        planned[var] = function if is_left else _with_found_sizes(planned[var])
    return planned


def _has_branches(function: Any) -> bool:
    found: list[Any] = []
    relax.analysis.post_order_visit(
        function, lambda expr: found.append(expr) if isinstance(expr, relax.If) else None
    )
    return bool(found)


def _with_found_sizes(function: Any) -> Any:
    """
    `function`, whose storages are as large as the tensors in them. For a tensor of `min(1000, n)`
    elements, TVM would allocate 1000 even where `n` is 1.
    """
    bindings = [binding for block in function.body.blocks for binding in block.bindings]
    tensors: dict[int, list[Any]] = defaultdict(list)
    for binding in bindings:
        if _is_call(binding.value, _TENSOR):
            tensors[hash(binding.value.args[0])].append(binding)
    known = {hash(each) for param in function.params for each in _variables(param.ty)}
    sizes = {var: _size(bindings, known) for var, bindings in tensors.items()}

    def found(binding: Any) -> Any:
        size = sizes.get(hash(binding.var))
        if size is None or not _is_call(binding.value, _STORAGE):
            return binding
        planned, *others = binding.value.args
        if not isinstance(planned.values[0], tirx.IntImm):
            return binding
        device, scope, dtype = others
        call = relax.op.memory.alloc_storage(
            relax.ShapeExpr([size]), int(device), str(scope.value), str(dtype.value)
        )
        return relax.VarBinding(binding.var, call, binding.span)

    blocks = [
        relax.BindingBlock([found(each) for each in block.bindings], block.span)
        for block in function.body.blocks
    ]
    return with_body(function, with_blocks(function.body, blocks))


def _size(tensors: Sequence[Any], known: Collection[int]) -> Any | None:
    """
    The bytes of the largest of `tensors`, which all begin where their storage does; None if they
    have sizes that are not `known` as the function is called.
    """
    types = [binding.var.ty for binding in tensors]
    if any(int(binding.value.args[1]) for binding in tensors):
        return None
    if not all(hash(each) in known for type_ in types for each in _variables(type_)):
        return None
    return reduce(tirx.max, map(_bytes, types))


def _variables(type_: Any) -> Any:
    """The dimensions with names in a type."""
    return relax.analysis.tir_vars_in_type(type_)


def _bytes(type_: Any) -> Any:
    width = (tvm.DataType(str(type_.dtype)).bits + 7) // 8
    return reduce(operator.mul, type_.shape, tirx.IntImm("int64", width))


def _is_call(value: Any, op: Any) -> bool:
    return isinstance(value, tvm.ir.Call) and value.op == op
