"""Prepare functions for GPUs: values of IEEE 754, reductions that TVM knows, and names of C."""

import math
import re
from functools import cache
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from collage_dsl.backends.schedule.expressions import called
from collage_dsl.backends.schedule.ieee import with_ieee_values


def exact(function: Any) -> Any:
    """
    `function` with values as IEEE 754 has them. Here maxima and minima of NaN are NaN: those of
    CUDA are the other operand. It is done before the schedule, which has to know the reductions.
    """

    def extremum(node: Any) -> Any:
        return _of_numbers(type(node), node.a, node.b) if _is_float(node) else node

    def number(call: Any) -> Any:
        """The number, not what `hidden` makes of it: C has no address of a number."""
        inner = call.args[0] if called(call, "tirx.reinterpret") else None
        if inner is None or not called(inner, "tirx.reinterpret"):
            return call
        return inner.args[0] if isinstance(inner.args[0], tirx.FloatImm) else call

    ordered = with_ieee_values(_with_powers(function), extrema=False)
    changes = ((tirx.Max, tirx.Min), extremum), (tvm.ir.Call, number)
    return tvm_ffi.structural_map(ordered, changes)


def _is_float(value: Any) -> bool:
    return "float" in str(value.ty.dtype)


def _of_numbers(combine: Any, one: Any, other: Any) -> Any:
    """The combination of two floats, or the one that is NaN."""
    known = combine(one, other)
    for each in (one, other):
        if not isinstance(each, tirx.FloatImm):
            is_number = each <= tirx.FloatImm(each.ty.dtype, math.inf)
            known = tirx.Select(is_number, known, each)
    return known


@cache
def register_maxima() -> None:
    """
    Let threads share maxima and minima as they are made here and in `realization.legalize`. TVM
    knows those of CUDA, which start from a finite number.
    """
    known = _registered("maximum", tirx.Max, -math.inf), _registered("minimum", tirx.Min, math.inf)
    register = tvm_ffi.get_global_func("s_tir.schedule.RegisterReducer")
    for combine, start in known:
        register(1, combine, start)


def _registered(name: str, operator: Any, start: float) -> tuple[Any, Any]:
    """
    What makes the combination of two values, and the value that it starts from. TVM's table of
    reductions outlives Python, and so do global functions.
    """

    def combine(one: Any, other: Any) -> list[Any]:
        return [_of_numbers(operator, one[0], other[0])]

    def start_of(values: Any) -> list[Any] | None:
        return [tirx.FloatImm(values[0].ty.dtype, start)] if _is_float(values[0]) else None

    names = f"collage.gpu.{name}", f"collage.gpu.{name}.start"
    for each, function in zip(names, (combine, start_of), strict=True):
        tvm_ffi.register_global_func(each, function, override=True)
    return tvm_ffi.get_global_func(names[0]), tvm_ffi.get_global_func(names[1])


def _with_powers(function: Any) -> Any:
    """
    `function` in which a power of a negative number is one of its absolute value. TVM has CUDA
    compile with fast math, where the logarithm of a negative base makes each power NaN.
    """

    def power(call: Any) -> Any:
        if not called(call, "tirx.pow") or str(call.ty.dtype) != "float32":
            return call
        base, exponent = call.args
        size = tirx.pow(tirx.abs(base), exponent)
        half = exponent / 2
        signed = tirx.Select(tirx.EQ(tirx.floor(half), half), size, -size)
        is_whole = tirx.EQ(tirx.floor(exponent), exponent)
        nan = tirx.FloatImm(call.ty.dtype, math.nan)
        return tirx.Select(base < 0, tirx.Select(is_whole, signed, nan), size)

    return tvm_ffi.structural_map(function, (tvm.ir.Call, power))


def with_plain_names(function: Any) -> Any:
    """`function`, whose variables have names that C knows: models may have `0` or `größe`."""

    def renamed(variable: Any) -> Any:
        return variable if _PLAIN.fullmatch(variable.name) else new[variable]

    variables: list[Any] = []
    tvm_ffi.structural_walk(function, (tvm.ir.Var, variables.append))
    new = {each: tvm.ir.Var(f"v{_NOT_PLAIN.sub('_', each.name)}", each.ty) for each in variables}
    return tvm_ffi.structural_map(function, (tvm.ir.Var, renamed))


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_]")
