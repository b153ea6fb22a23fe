"""
Concatenations without a copy: what computes an operand writes it where the result is.

A concatenation of tensors along their first axis that is longer than one is the operands, one
after the other in memory. So the storage of the result is allocated first, and each operand is a
tensor in its part of it. This is done on the explicit allocations that TVM plans memory for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import tvm
from tvm import relax

from collage_dsl.realization.replaced import typed, with_blocks, with_body

JOINS = "collage_joins"
"""
The attribute of a PrimFunc that concatenates, and that need not run: the positions of the operands
among its parameters, in the order of the concatenation.
"""

_CONCAT = tvm.ir.Op.get("relax.concat")
_ALLOC = tvm.ir.Op.get("relax.builtin.alloc_tensor")


@dataclass(frozen=True, slots=True)
class _Part:
    """The place of a tensor in that of the allocation `whole`, `offset` bytes from its start."""

    whole: int
    offset: int


def without_copies(module: tvm.IRModule) -> tvm.IRModule:
    """
    `module` in which calls of functions with the attribute `JOINS` are left out where their
    operands can be written to the result. Other calls of them stay, and copy.
    """
    functions = module.functions_items()
    orders = {var.name_hint: (each.attrs or {}).get(JOINS) for var, each in functions}
    callees = {name: [int(at) for at in order] for name, order in orders.items() if order}
    for var, function in functions if callees else ():
        if isinstance(function, relax.Function):
            module[var] = _Joiner(callees, function).run()
    return module


def joined(function: Any) -> tuple[int, ...]:
    """The positions of the operands of a concatenation among the parameters of its kernel."""
    bound = {hash(b.var): b.value for block in function.body.blocks for b in block.bindings}
    call = next(v for v in bound.values() if isinstance(v, tvm.ir.Call) and v.op == _CONCAT)
    operands = bound.get(hash(call.args[0]), call.args[0])
    position = {hash(param): at for at, param in enumerate(function.params)}
    return tuple(position[hash(operand)] for operand in operands.fields)


class _Joiner:
    """Finds the parts of each result in the blocks of one function, and rewrites the blocks."""

    def __init__(self, callees: Mapping[str, list[int]], function: Any) -> None:
        self.callees = callees
        self.function = function
        self.returned: set[int] = set()

    def run(self) -> Any:
        return with_body(self.function, self.sequence(self.function.body))

    def sequence(self, old: Any) -> Any:
        self.returned |= {hash(var) for var in relax.analysis.free_vars(old.body)}
        return with_blocks(old, [self.block(block) for block in old.blocks])

    def binding(self, binding: Any) -> Any:
        """A binding, rewritten inside if it has branches."""
        value = binding.value
        if not isinstance(value, relax.If):
            return binding
        branches = [self.sequence(branch) for branch in (value.true_branch, value.false_branch)]
        new = typed(relax.If(value.cond, *branches, value.span), value.ty)
        return relax.VarBinding(binding.var, new, binding.span)

    def block(self, block: Any) -> Any:
        bindings = [self.binding(binding) for binding in block.bindings]
        allocated = _allocated(bindings)
        parts, done = self.parts(bindings, allocated)
        return relax.BindingBlock(_placed(bindings, allocated, parts, done), block.span)

    def parts(
        self, bindings: Sequence[Any], allocated: Mapping[int, int]
    ) -> tuple[dict[int, _Part], set[int]]:
        """The parts by the position of their allocation, and the positions of calls left out."""
        kept = {at for var, at in allocated.items() if var in self.returned}
        parts: dict[int, _Part] = {}
        done: set[int] = set()
        for position, binding in enumerate(bindings):
            if not self.joins(binding):
                continue
            *given, result = binding.value.args
            order = self.callees[_name(binding.value.op)]
            found = [allocated.get(hash(each)) for each in (*(given[i] for i in order), result)]
            *operands, result = (at for at in found if at is not None)
            if len(set(found) - {None}) < len(found) or (kept | parts.keys()) & {*operands}:
                continue
            if len({_memory(bindings[at].value) for at in (*operands, result)}) > 1:
                continue
            offset = 0
            for at in operands:
                parts[at] = _Part(result, offset)
                offset += _bytes(bindings[at].var.ty)
            done.add(position)
        return parts, done

    def joins(self, binding: Any) -> bool:
        call = binding.value
        return isinstance(call, tvm.ir.Call) and _name(call.op) in self.callees


def _name(callee: Any) -> str:
    return str(callee.name_hint) if isinstance(callee, tvm.ir.GlobalVar) else ""


def _allocated(bindings: Sequence[Any]) -> dict[int, int]:
    """
    The position of the allocation of each variable that is a whole new tensor, by its hash. A
    library kernel with several results gives a tuple of such tensors.
    """
    found: dict[int, int] = {}
    tuples: dict[int, Any] = {}
    for position, binding in enumerate(bindings):
        variable, value = hash(binding.var), binding.value
        if isinstance(value, relax.Tuple):
            tuples[variable] = value
        elif isinstance(value, tvm.ir.Var) and hash(value) in tuples:
            tuples[variable] = tuples[hash(value)]
        if isinstance(value, relax.TupleGetItem) and hash(value.tuple_value) in tuples:
            value = tuples[hash(value.tuple_value)].fields[value.index]
        if isinstance(value, tvm.ir.Call) and value.op == _ALLOC:
            found[variable] = position
        elif isinstance(value, tvm.ir.Var) and hash(value) in found:
            found[variable] = found[hash(value)]
    return found


def _placed(
    bindings: Sequence[Any],
    allocated: Mapping[int, int],
    parts: Mapping[int, _Part],
    done: set[int],
) -> list[Any]:
    """
    The bindings without the calls `done`. Tensors that are `parts` of one, directly or of a part
    of it, and that one itself have places in one storage.
    """
    written: list[Any] = []
    storages: dict[int, Any] = {}
    wholes = {part.whole for part in parts.values()}
    first = set(allocated.values())
    for position, binding in enumerate(bindings):
        if position in done:
            continue
        if position not in first or position not in wholes | parts.keys():
            written.append(binding)
            continue
        whole, offset = _place(position, parts)
        if whole not in storages:
            storages[whole] = _storage(bindings[whole])
            written.append(storages[whole])
        written.append(_tensor(binding, storages[whole].var, offset))
    return written


def _place(position: int, parts: Mapping[int, _Part]) -> tuple[int, int]:
    """The outermost allocation that a tensor is part of, and where it begins, in bytes."""
    offset = 0
    while position in parts:
        offset += parts[position].offset
        position = parts[position].whole
    return position, offset


def _memory(allocation: Any) -> tuple[int, str]:
    """The device and the scope of an allocated tensor."""
    _, _, device, scope = allocation.args
    return int(device), str(scope.value)


def _storage(allocation: Any) -> Any:
    """The binding of a new storage for an allocated tensor."""
    type_, (device, scope) = allocation.var.ty, _memory(allocation.value)
    size = relax.ShapeExpr([_bytes(type_)])
    call = relax.op.memory.alloc_storage(size, device, scope, str(type_.dtype))
    return relax.VarBinding(relax.Var("storage", relax.AnyType()), call)


def _tensor(allocation: Any, storage: Any, offset: int) -> Any:
    """The allocated tensor, which begins `offset` bytes into a storage."""
    variable, device = allocation.var, _memory(allocation.value)[0]
    type_ = variable.ty
    call = relax.op.memory.alloc_tensor(storage, offset, type_.shape, str(type_.dtype), device)
    return relax.VarBinding(variable, typed(call, type_))


def _bytes(type_: Any) -> int:
    bits = tvm.DataType(str(type_.dtype)).bits
    return prod(int(extent) for extent in type_.shape) * bits // 8
