"""Compute what depends on one axis alone once for each of its elements."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, TensorLoad, Var

from collage_dsl.backends.schedule.expressions import (
    ARITHMETIC,
    Buffer,
    Expr,
    equal,
    loads,
    substitute,
    variables,
)
from collage_dsl.backends.schedule.loops import Stmt, load, loop, scratch, store
from collage_dsl.backends.schedule.stages import Axis

ROUNDING = ("floor", "ceil", "round", "nearbyint", "trunc")


class Tables:
    """
    What is computed of the elements of an axis and of `sizes` alone, once for each element.

    A number that is rounded has a table of its own. Otherwise LLVM may compute it in two ways, so
    that a place and its weight do not belong to the same integer.
    """

    def __init__(self, axis: Axis, sizes: Collection[Var] = ()) -> None:
        self._axis = axis
        self._sizes = frozenset(sizes)
        self._values: list[Expr] = []
        self.buffers: list[Buffer] = []

    def replaced(self, value: Expr) -> Expr:
        """`value` with reads of tables for what depends on the axis alone."""
        x = self._axis.var
        used = variables(value)
        if x not in used or x.same_as(value):
            return value
        if isinstance(value, TensorLoad):
            return tirx.BufferLoad(value.source, [self.replaced(each) for each in value.indices])
        if used - self._sizes == {x} and not loads(value):
            return self._read(tvm_ffi.structural_map(value, (Call, self._of_table)))
        if isinstance(value, ARITHMETIC):
            return type(value)(self.replaced(value.a), self.replaced(value.b))
        return value

    def statements(self) -> list[Stmt]:
        """The loops that fill the tables."""
        x = self._axis.var
        pairs = zip(self._values, self.buffers, strict=True)
        return [
            loop(self._axis.extent, partial(_filled, value, buffer, x), name="x")
            for value, buffer in pairs
        ]

    def _of_table(self, call: Call) -> Expr:
        name = str(getattr(call.op, "name", "")).rpartition(".")[2]
        if name not in ROUNDING:
            return call
        return Call(call.op, [self._read(call.args[0])], call.attrs, ret_ty=call.ty)

    def _read(self, value: Expr) -> Expr:
        if isinstance(value, TensorLoad):
            return value
        for known, buffer in zip(self._values, self.buffers, strict=True):
            if equal(known, value):
                return load(buffer, self._axis.var)
        self._values.append(value)
        self.buffers.append(scratch(self._axis.extent, str(value.ty.dtype), "table"))
        return load(self.buffers[-1], self._axis.var)


def _filled(value: Expr, buffer: Buffer, axis: Var, index: Expr) -> Stmt:
    return store(buffer, substitute(value, {axis: index}), index)
