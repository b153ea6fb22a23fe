"""Find where a sum reads nothing beyond the edges of what is padded, so that it asks nothing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import tvm_ffi
from tvm import tirx
from tvm.ir import Call

from collage_dsl.backends.schedule.expressions import (
    IF_THEN_ELSE,
    Expr,
    called,
    choices,
    coefficients,
    loads,
    substitute,
    variables,
)
from collage_dsl.backends.schedule.packing import conjuncts

Ranges = Mapping[tirx.Var, tuple[Expr, Expr]]
"""The first and the last value of variables."""


def without_choices(value: Expr, ranges: Ranges) -> tuple[Expr, Expr] | None:
    """
    A condition under which each choice in `value` takes its first side, whatever the variables in
    `ranges` are, and `value` with these sides alone. None if there is no choice, or one that is not
    made by comparisons of sums.
    """
    found = choices(value)
    asked = [each for choice in found for each in conjuncts(choice.args[0])]
    least = [_at_worst(each, ranges) for each in asked]
    if not least or any(each is None for each in least):
        return None

    def chosen(call: Call) -> Expr:
        return call.args[1] if called(call, IF_THEN_ELSE) else call

    return reduce(tirx.And, least), tvm_ffi.structural_map(value, (Call, chosen))


def _at_worst(comparison: Expr, ranges: Ranges) -> Expr | None:
    """
    `a <= b` or `a < b` where the variables make `b - a` least. None for another condition, and for
    one that reads a tensor: it may do so only where other conditions hold.
    """
    if not isinstance(comparison, (tirx.LE, tirx.LT)) or loads(comparison):
        return None
    used = [variable for variable in ranges if variable in variables(comparison)]
    split = coefficients(comparison.b - comparison.a, used)
    if split is None:
        return None
    pairs = zip(used, split[0], strict=True)
    return substitute(comparison, {var: ranges[var][factor < 0] for var, factor in pairs})
