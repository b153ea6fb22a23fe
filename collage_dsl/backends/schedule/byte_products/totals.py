"""Correct sums of products of bytes by the zero points of these."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx

from collage_dsl.backends.schedule.expressions import Expr, constant


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """The sums of the `terms` bytes w and x of a product; that of x where it is needed."""

    weight: Expr
    operand: Expr | None
    terms: int

    def corrected(self, value: Expr, operand_zero: Expr, weight_zero: Expr) -> Expr:
        """
        The sum of products without zero points, of which `value` is the sum with them. Zero points
        are not subtracted from bytes, which would not stay bytes:

            sum (x - a) (w - b) = sum x w - a sum w - b (sum x - n a)

        Parts of the right side may wrap around, which an int32 does not.
        """
        zero = _wrapping(operand_zero)
        right = _wrapping(value) - zero * _wrapping(self.weight)
        if self.operand is not None:
            rest = _wrapping(self.operand) - self.terms * zero
            right = right - _wrapping(weight_zero) * rest
        return tirx.Cast("int32", right)


def _wrapping(value: Expr) -> Expr:
    known = constant(value)
    return tirx.Cast("uint32", value) if known is None else tirx.const(known % 2**32, "uint32")
