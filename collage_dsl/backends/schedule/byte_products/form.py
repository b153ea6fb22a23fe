"""Recognize a product of bytes: a sum of products of bytes without their zero points."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx

from collage_dsl.backends.schedule.expressions import Buffer, Expr, variables
from collage_dsl.backends.schedule.gemm.form import Product, product_with
from collage_dsl.backends.schedule.groups import Inlined
from collage_dsl.backends.schedule.machine import Dots
from collage_dsl.backends.schedule.stages import Axis, Stage

_BYTES = ("int8", "uint8")


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """The int32 `value - zero`, where `value` is a byte."""

    value: Expr
    zero: Expr

    @property
    def is_signed(self) -> bool:
        return str(self.value.ty.dtype) == "int8"

    @property
    def unsigned_zero(self) -> Expr:
        """The zero point of the byte as an unsigned one."""
        return self.zero + 128 if self.is_signed else self.zero

    @property
    def signed_zero(self) -> Expr:
        """The zero point of the byte as a signed one."""
        return self.zero if self.is_signed else self.zero - 128


@dataclass(frozen=True, slots=True, eq=False)
class ByteProduct:
    """
    `product`, whose operands are bytes, without the zero points of these, by the instruction
    `dots`.

    The zero point of the operand uses none of the axes `column` and `inner`, that of the weight
    uses no axis but `column`.
    """

    product: Product
    operand: Factor
    weight: Factor
    dots: Dots

    @property
    def weights(self) -> Buffer:
        return self.product.weights


def byte_product(stage: Stage, inlined: Inlined, dots: Dots) -> ByteProduct | None:
    """The stage as a product of bytes whose second factor is the weight; None if it is none."""
    factors = stage.factors()
    if factors is None or str(stage.buffer.dtype) != "int32":
        return None
    operand, weight = (factor_of(inlined.expand(factor)) for factor in factors)
    if operand is None or weight is None:
        return None
    product = product_with(stage, operand.value, weight.value)
    if product is None or not (product.has_one_weight and product.by_inner):
        return None
    of_rows = not _uses(operand.zero, product.column, product.inner)
    of_column = not _uses(weight.zero, *product.batch, *product.rows, product.inner)
    return ByteProduct(product, operand, weight, dots) if of_rows and of_column else None


def factor_of(value: Expr) -> Factor | None:
    """An int32 as a byte without its zero point; None if it is none."""
    zero: Expr = tirx.IntImm("int32", 0)
    if isinstance(value, tirx.Sub):
        value, zero = value.a, value.b
    return Factor(value.value, zero) if is_byte(value) else None


def is_byte(value: Expr) -> bool:
    """Whether a value is a byte as an int32."""
    if not isinstance(value, tirx.Cast) or str(value.ty.dtype) != "int32":
        return False
    return str(value.value.ty.dtype) in _BYTES


def _uses(value: Expr, *axes: Axis) -> bool:
    return any(axis.var in variables(value) for axis in axes)
