"""What is common to convolutions of images in NCHW with filters in OIHW."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tvm import tirx
from tvm.ir import TensorLoad

from collage_dsl.backends.schedule.expressions import (
    Buffer,
    Expr,
    coefficients,
    constant,
    simplified,
)
from collage_dsl.backends.schedule.stages import Axis, Stage, extents


@dataclass(frozen=True, slots=True, eq=False)
class OverImages:
    """
    A stage over `n, filter, y, x` that sums over `channel, tap, tap`. It may also be one over
    `n, filter, plane, y, x`, with an image for each plane.
    """

    stage: Stage

    @property
    def batch(self) -> int:
        """The images."""
        return self.stage.spatial[0].extent * self.depth

    @property
    def depth(self) -> int:
        """The images of one `n`."""
        return prod(extents(self.stage.spatial[2:-2]))

    @property
    def filters(self) -> int:
        """Those of all groups."""
        return self.stage.spatial[1].extent

    @property
    def height(self) -> int:
        return self.stage.spatial[-2].extent

    @property
    def width(self) -> int:
        return self.stage.spatial[-1].extent

    @property
    def channels(self) -> int:
        """Those that each filter reads."""
        return self.stage.reduced[0].extent

    @property
    def taps(self) -> tuple[int, int]:
        return self.stage.reduced[1].extent, self.stage.reduced[2].extent


def factors(stage: Stage, spatial: int = 4, reduced: int = 3) -> tuple[Expr, Expr] | None:
    """The factors of the products that a stage of so many axes sums, in float32 from zero."""
    axes = len(stage.spatial), len(stage.reduced)
    if axes != (spatial, reduced) or str(stage.buffer.dtype) != "float32":
        return None
    is_zero = isinstance(stage.init, tirx.FloatImm) and stage.init.value == 0
    return stage.factors() if is_zero else None


def is_filter(stage: Stage, weight: Expr, parameters: Sequence[Buffer]) -> bool:
    """Whether a factor reads a parameter at `filter, channel`, and the taps."""
    if not isinstance(weight, TensorLoad) or weight.source not in parameters:
        return False
    axes = (stage.spatial[1], *stage.reduced)
    return len(weight.indices) == len(axes) and all(
        is_axis(index, axis) for index, axis in zip(weight.indices, axes, strict=True)
    )


def is_axis(index: Expr, axis: Axis) -> bool:
    return axis.var.same_as(index) or (axis.extent == 1 and constant(index) == 0)


def window(index: Expr, axis: Axis, tap: Axis) -> tuple[int, int] | None:
    """The stride and the constant of `stride * axis + tap + constant`; None for another index."""
    split = coefficients(index, [axis.var, tap.var])
    base = constant(simplified(split[1])) if split else None
    if split is None or base is None:
        return None
    stride, step = split[0]
    if tap.extent > 1 and step != 1:
        return None
    return (stride, base) if axis.extent > 1 and stride > 0 else None


def offset(index: Expr, axis: Axis, tap: Axis) -> int | None:
    """The constant in `axis + tap + constant`; None for another index, such as one with strides."""
    split = coefficients(index, [axis.var, tap.var])
    if split is None:
        return None
    pairs = zip((axis, tap), split[0], strict=True)
    wanted = [0 if each.extent == 1 and not factor else 1 for each, factor in pairs]
    return constant(simplified(split[1])) if split[0] == wanted else None
