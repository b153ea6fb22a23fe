"""
Sizes that are not known before a kernel runs.

A `Size` stands where schedules have a whole number: for the extent of an axis, or of a loop. What
is computed from it is a `Size` too, and so a loop that is made for it has an expression as extent.
Where a schedule has to choose, it takes the size for a typical one. So whatever is chosen must be
right for every size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import tvm_ffi
from tvm import sym, tirx
from tvm.ir import Expr, Var

TYPICAL = 131
"""
What each unknown dimension is taken for. It is a prime, so that no tile is taken to fit. No size is
taken for 1, or for none: an axis without a loop would be no axis.
"""


def size_of(extent: Any) -> int:
    """A number for a constant, and a `Size` for another expression, which may be used as an int."""
    simple = extent if isinstance(extent, tirx.IntImm) else sym.Analyzer().simplify(extent)
    if isinstance(simple, tirx.IntImm):
        return int(simple.value)
    taken = tvm_ffi.structural_map(simple, (Var, lambda var: tirx.const(TYPICAL, var.ty.dtype)))
    value = int(sym.Analyzer().simplify(taken).value)
    return cast(int, Size(simple, value if value > 1 else TYPICAL))


def is_known(size: int) -> bool:
    return not isinstance(size, Size)


def typical(size: int) -> int:
    """The number itself, or what an unknown size is taken for."""
    return size.typical if isinstance(size, Size) else size


def least(one: int, other: int) -> int:
    """The lesser of two sizes, whatever they are."""
    return size_of(tirx.min(_expression(one), _expression(other)))


def greatest(one: int, other: int) -> int:
    """The greater of two sizes, whatever they are."""
    return size_of(tirx.max(_expression(one), _expression(other)))


@dataclass(frozen=True, slots=True, eq=False)
class Size:
    """A size that `expression` computes. It is as long as `typical` where a schedule compares."""

    expression: Any
    typical: int

    def __tvm_ffi_value__(self) -> Any:
        return self.expression

    def __hash__(self) -> int:
        return hash(self.typical)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Size):
            return False
        return bool(tvm_ffi.structural_equal(self.expression, other.expression))

    def __lt__(self, other: Any) -> bool:
        return self.typical < typical(other)

    def __le__(self, other: Any) -> bool:
        return self.typical <= typical(other)

    def __gt__(self, other: Any) -> bool:
        return self.typical > typical(other)

    def __ge__(self, other: Any) -> bool:
        return self.typical >= typical(other)

    def __neg__(self) -> Any:
        return self * -1

    def __add__(self, other: Any) -> Any:
        return _computed(lambda a, b: a + b, self, other)

    def __radd__(self, other: Any) -> Any:
        return _computed(lambda a, b: a + b, other, self)

    def __sub__(self, other: Any) -> Any:
        return _computed(lambda a, b: a - b, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _computed(lambda a, b: a - b, other, self)

    def __mul__(self, other: Any) -> Any:
        return _computed(lambda a, b: a * b, self, other)

    def __rmul__(self, other: Any) -> Any:
        return _computed(lambda a, b: a * b, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _computed(tirx.floordiv, self, other)

    def __mod__(self, other: Any) -> Any:
        return _computed(tirx.floormod, self, other)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __truediv__(self, other: float) -> float:
        return self.typical / other


def _computed(operator: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    """A number or a size of numbers and sizes; an index of an index; an estimate of a float."""
    if isinstance(one, float) or isinstance(other, float):
        return operator(typical(one), typical(other))
    value = operator(_expression(one), _expression(other))
    indices = isinstance(one, Expr) or isinstance(other, Expr)
    return value if indices else size_of(value)


def _expression(value: Any) -> Any:
    if isinstance(value, Size):
        return value.expression
    return tirx.IntImm("int64", value) if isinstance(value, int) else value
