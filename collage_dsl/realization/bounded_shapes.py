"""Shapes that are simple because a function says which sizes its dimensions can have."""

from collections.abc import Mapping
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, sym, tirx

from collage_dsl.realization.replaced import with_functions

_LARGEST = 2**31


def with_bounded_shapes(module: tvm.IRModule) -> tvm.IRModule:
    """
    `module`, in which values have simpler shapes where a function has the attribute
    `tir_var_lower_bound`, as those have that `from_exported_program` reads. For `n` of at least 1,
    `min(1, n)` is 1. Casts say so, because TVM infers types without the bounds, and of two values
    with shapes that look different it cannot tell the shape of the sum.
    """
    new = {}
    for var, function in module.functions_items():
        least = (getattr(function, "attrs", None) or {}).get("tir_var_lower_bound")
        if isinstance(function, relax.Function) and least:
            simplifier = _Simplifier(module, function, least)
            if simplifier.finds_any:
                new[var] = simplifier.visit_expr(function)
    if not new:
        return module
    return with_functions(module, {**dict(module.functions_items()), **new})


@relax.expr_functor.mutator
class _Simplifier(relax.PyExprMutator):
    def __init__(self, module: tvm.IRModule, function: Any, least: Mapping[str, Any]) -> None:
        super().__init__(module)
        self.plain = sym.Analyzer()
        self.bounded = sym.Analyzer()
        most = function.attrs.get("tir_var_upper_bound") or {}
        for symbol in relax.analysis.defined_symbolic_vars(function):
            name = str(symbol.name)
            ends = int(least.get(name, 0)), int(most.get(name, _LARGEST)) + 1
            of = str(symbol.ty.dtype)
            self.bounded.bind(symbol, tvm.ir.Range(*(tirx.const(end, of) for end in ends)))
        self.used: set[int] = set()
        """The variables that something other than a cast reads."""
        self.bound: list[Any] = []
        tvm_ffi.structural_walk(function, (relax.VarBinding, self._note))

    def _note(self, binding: Any) -> None:
        self.used.update(map(hash, relax.analysis.free_vars(binding.value)))
        self.bound.append(binding.var)

    @property
    def finds_any(self) -> bool:
        return any(self.is_cast(var) and self.simple(var.ty) for var in self.bound)

    def is_cast(self, var: Any) -> bool:
        """Whether a variable is replaced by its cast, if its shape is simpler."""
        return isinstance(var, relax.DataflowVar) and hash(var) in self.used

    def visit_var_binding_(self, binding: Any) -> None:
        if not self.is_cast(binding.var):
            super().visit_var_binding_(binding)
            return
        var = self.builder_.emit(self.visit_expr(binding.value))
        dims = self.simple(var.ty)
        if dims:
            var = self.builder_.match_cast(var, relax.TensorType(dims, str(var.ty.dtype)))
        self.set_var_remap(binding.var, var)

    def simple(self, type_: Any) -> list[Any]:
        """The dimensions of a tensor, if the bounds make one of them simpler; else none."""
        if not isinstance(type_, relax.TensorType) or not isinstance(type_.shape, relax.ShapeExpr):
            return []
        plain = [self.plain.simplify(dim) for dim in type_.shape]
        bounded = [self.bounded.simplify(dim) for dim in plain]
        is_same = all(map(tvm_ffi.structural_equal, plain, bounded))
        return [] if is_same else bounded
