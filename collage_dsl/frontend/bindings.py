"""The bindings of a dataflow block that its result needs, and what each variable stands for."""

from collections import Counter
from typing import Any

import tvm
from tvm import relax

from collage_dsl.frontend.dataflow import is_value


class Bindings:
    """
    The bindings of a function whose body is one dataflow block. A variable that is bound to
    another, or to a field of a tuple, stands for that one; so does one that is bound to a tuple.

    `live` has the others that the result needs, in order. `uses` says how often each variable or
    constant is taken by these and by the result, by its hash.
    """

    def __init__(self, function: Any) -> None:
        (block,) = function.body.blocks
        self.stands_for: dict[int, Any] = {}
        self.bound = {hash(each.var): each for each in block.bindings}
        for binding in block.bindings:
            self._note(binding)
        self.result = self.resolved(function.body.body)
        self.uses: Counter[int] = Counter()
        self.projected: dict[int, set[int]] = {}
        """Which fields are taken of each tuple that a call gives."""
        kept = self._needed()
        calls = (each.value for each in block.bindings if hash(each.var) in kept)
        self.rounds = any(
            isinstance(each, tvm.ir.Call) and operator(each) in _ROUND for each in calls
        )
        """Whether numbers are rounded to integers."""
        self.live = [each for each in block.bindings if hash(each.var) in kept]

    def resolved(self, expr: Any) -> Any:
        return self.stands_for.get(hash(expr), expr)

    def call(self, expr: Any, op: str) -> Any | None:
        """The call of `op` that the variable `expr` is bound to; None if it is no such call."""
        binding = self.bound.get(hash(self.resolved(expr)))
        value = None if binding is None or isinstance(binding, relax.MatchCast) else binding.value
        is_one = isinstance(value, tvm.ir.Call) and operator(value) == op
        return value if is_one else None

    def _note(self, binding: Any) -> None:
        value = binding.value
        if isinstance(binding, relax.MatchCast):
            return
        if is_leaf(value):
            value = self.resolved(value)
        elif isinstance(value, tvm.ir.TupleGetItem):
            whole = self.resolved(value.tuple_value)
            if not isinstance(whole, tvm.ir.Tuple):
                return
            value = self.resolved(whole.fields[value.index])
        elif not isinstance(value, tvm.ir.Tuple):
            return
        self.stands_for[hash(binding.var)] = value

    def _needed(self) -> set[int]:
        pending, kept = self.leaves(self.result), set[int]()
        while pending:
            leaf = pending.pop()
            self.uses[hash(leaf)] += 1
            binding = self.bound.get(hash(leaf))
            if binding is None or hash(leaf) in kept:
                continue
            kept.add(hash(leaf))
            self._note_projection(binding.value)
            pending += self.leaves(binding.value)
        return kept

    def _note_projection(self, value: Any) -> None:
        if isinstance(value, tvm.ir.TupleGetItem):
            whole = hash(self.resolved(value.tuple_value))
            self.projected.setdefault(whole, set()).add(int(value.index))

    def leaves(self, expr: Any) -> list[Any]:
        """The variables and constants that `expr` takes, as often as it takes them."""
        expr = self.resolved(expr)
        match expr:
            case tvm.ir.Call():
                return [leaf for each in expr.args for leaf in self.leaves(each)]
            case tvm.ir.Tuple():
                return [leaf for each in expr.fields for leaf in self.leaves(each)]
            case tvm.ir.TupleGetItem():
                return self.leaves(expr.tuple_value)
        return [expr] if is_leaf(expr) else []


_ROUND = frozenset({"ceil", "dequantize", "floor", "quantize", "round"})


def is_leaf(expr: Any) -> bool:
    return is_value(expr) or is_constant(expr)


def is_constant(expr: Any) -> bool:
    return isinstance(expr, tvm.ir.GenericConst) and isinstance(expr.ty, relax.TensorType)


def operator(call: Any) -> str:
    """The operator of a call without its prefix; empty for the call of anything else."""
    is_one = isinstance(call.op, tvm.ir.Op)
    return str(call.op.name).removeprefix("relax.") if is_one else ""
