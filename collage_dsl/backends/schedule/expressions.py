"""Analyse and rewrite scalar expressions of TVM."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import sym, tirx
from tvm.ir import Call, TensorLoad, Var

from collage_dsl.backends.schedule.sizes import Size

Expr = Any
Buffer = Any

IF_THEN_ELSE = "prim.if_then_else"

ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Min, tirx.Max)
"""Expressions of two operands, `a` and `b`."""


def integer(value: int) -> Expr:
    """An index constant, or an unknown size. All indices have 64 bits until TVM narrows them."""
    if isinstance(value, Size):
        return value.expression
    return tirx.IntImm("int64", value)


def loads(expression: Expr) -> list[TensorLoad]:
    """Every read of a buffer, once for each occurrence in the expression."""
    found: list[TensorLoad] = []
    tvm_ffi.structural_walk(expression, (TensorLoad, found.append))
    return found


def has_bfloat16(expression: Expr) -> bool:
    """
    Whether an expression reads bfloat16 or rounds to it. Such a value gets no name: TVM 0.27 gives
    names wrong values where it replaces that type, or fails.
    """
    found: list[Any] = []
    tvm_ffi.structural_walk(expression, ((TensorLoad, tirx.Cast), found.append))
    return any("bfloat16" in str(each.ty.dtype) for each in found)


def variables(expression: Expr) -> set[Var]:
    """The variables of an expression, without buffers."""
    found: set[Var] = set()

    def note(variable: Var) -> None:
        if not tirx.buffer.is_buffer_var(variable):
            found.add(variable)

    tvm_ffi.structural_walk(expression, (Var, note))
    return found


def substitute(expression: Expr, values: Mapping[Var, Expr]) -> Expr:
    """The expression with variables replaced by values."""
    if not values:
        return expression
    return tvm_ffi.structural_map(expression, (Var, lambda var: values.get(var, var)))


def replace_loads(expression: Expr, replace: Callable[[TensorLoad], Expr]) -> Expr:
    """The expression with each read replaced, from the innermost outwards."""
    return tvm_ffi.structural_map(expression, (TensorLoad, replace))


def simplified(expression: Expr) -> Expr:
    """The expression after TVM's arithmetic rules."""
    return sym.Analyzer().simplify(expression)


def equal(one: Expr, other: Expr) -> bool:
    """Whether two expressions are written alike."""
    return bool(tvm_ffi.structural_equal(one, other))


def choices(expression: Any) -> list[Call]:
    """The calls in an expression or statement that compute a value only under a condition."""
    found: list[Call] = []
    tvm_ffi.structural_walk(expression, (Call, found.append))
    return [call for call in found if called(call, IF_THEN_ELSE)]


def called(expression: Expr, name: str) -> bool:
    """Whether the expression is a call of the operator `name`."""
    return isinstance(expression, Call) and getattr(expression.op, "name", None) == name


def constant(expression: Expr) -> int | None:
    """The value of an integer constant; None for another expression."""
    return int(expression.value) if isinstance(expression, tirx.IntImm) else None


def coefficients(index: Expr, axes: Sequence[Var]) -> tuple[list[int], Expr] | None:
    """The integer factors of `axes` in `index`, and the rest without them; None if not linear."""
    found = sym.detect_linear_equation(index, list(axes))
    if not found:
        return None
    values = [constant(value) for value in found[:-1]]
    if any(value is None for value in values):
        return None
    return [value for value in values if value is not None], found[-1]


def operations(expression: Expr) -> tuple[int, int]:
    """The numbers of arithmetic nodes and of calls in a value, without index arithmetic."""
    arithmetic = calls = 0

    def note(node: Any) -> None:
        nonlocal arithmetic, calls
        if isinstance(node, Call) and not called(node, IF_THEN_ELSE):
            calls += 1
        elif str(getattr(node, "ty", "")).find("float") >= 0 and not isinstance(node, TensorLoad):
            arithmetic += not isinstance(node, (tirx.FloatImm, Var))

    tvm_ffi.structural_walk(expression, (tvm.ir.Expr, note))
    return arithmetic, calls
