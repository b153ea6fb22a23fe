"""Recognize a matrix product: a reduction over one axis of an operand times a weight."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx
from tvm.ir import TensorLoad

from collage_dsl.backends.schedule.expressions import Buffer, Expr, integer, loads, variables
from collage_dsl.backends.schedule.groups import Inlined, wide
from collage_dsl.backends.schedule.stages import Axis, Stage, shape


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """
    `stage[batch, rows, column] = sum over inner of operand[batch, rows, inner] * weight[...]`.

    The operand does not use `column`. The weight uses `column` and none of the `rows`; it uses the
    first axes of the `batch` or none. A convolution of one tap is a product too: its rows are
    pixels, and `column` is its channel.

    If `column` is not the last axis of the output, the axes before it are the `batch`.
    """

    stage: Stage
    operand: Expr
    weight: TensorLoad
    batch: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    column: Axis
    inner: Axis

    @property
    def weights(self) -> Buffer:
        return self.weight.source

    @property
    def by_columns(self) -> bool:
        """Whether the output is contiguous along the rows, not along the columns."""
        return wide(self.stage.spatial)[-1] is not self.column

    @property
    def by_inner(self) -> bool:
        """Whether the operand is contiguous along the inner axis, not along the rows."""
        return _ends_with(loads(self.operand)[0], self.inner)

    @property
    def weight_by_inner(self) -> bool:
        """Whether the weight is contiguous along the inner axis, not along the columns."""
        return _ends_with(self.weight, self.inner)

    @property
    def has_one_weight(self) -> bool:
        """Whether the weight is the same for the whole batch."""
        return not any(_uses(self.weight, axis) for axis in self.batch)

    @property
    def fixed(self) -> dict[tirx.Var, Expr]:
        """The index of each axis of extent one."""
        axes = (*self.stage.spatial, *self.stage.reduced)
        return {axis.var: integer(0) for axis in axes if axis.extent == 1}


def product_of(stage: Stage, inlined: Inlined) -> Product | None:
    """The stage as a product whose second factor is the weight; None if it is none."""
    factors = stage.factors()
    if factors is None or str(stage.buffer.dtype) != "float32":
        return None
    operand, weight = (inlined.expand(factor) for factor in factors)
    return product_with(stage, operand, weight)


def product_with(stage: Stage, operand: Expr, weight: Expr) -> Product | None:
    """A sum of products of `operand` and `weight` over one axis as a product, if it is one."""
    reduced = wide(stage.reduced)
    if len(reduced) != 1 or not isinstance(weight, TensorLoad) or len(loads(operand)) != 1:
        return None
    axes = wide(stage.spatial)
    shared = [axis for axis in axes if _uses(weight, axis) and _uses(operand, axis)]
    columns = [axis for axis in axes if _uses(weight, axis) and axis not in shared]
    if len(columns) != 1 or shared != list(axes[: len(shared)]):
        return None
    place = axes.index(columns[0])
    before, after = axes[len(shared) : place], axes[place + 1 :]
    batch, rows = (before, after) if after else ((), before)
    return Product(stage, operand, weight, (*shared, *batch), rows, columns[0], reduced[0])


def _uses(factor: Expr, axis: Axis) -> bool:
    return axis.var in variables(factor)


def _ends_with(read: TensorLoad, axis: Axis) -> bool:
    """Whether the last index of a read, of those that can move, uses the axis."""
    places = zip(read.indices, shape(read.source), strict=True)
    moving = [index for index, extent in places if extent > 1]
    return bool(moving) and axis.var in variables(moving[-1])
