"""Recognize a convolution whose filter slides by one element, and what it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad

from collage_dsl.backends.schedule.expressions import (
    Buffer,
    Expr,
    constant,
    simplified,
)
from collage_dsl.backends.schedule.images import OverImages, factors, is_axis, is_filter, offset
from collage_dsl.backends.schedule.stages import Stage, shape


@dataclass(frozen=True, slots=True, eq=False)
class Convolution(OverImages):
    """
    A convolution in NCHW with the weights as they are in memory, OIHW. Its result may be in NCDHW;
    then image `n * depth + d` gives plane `d` of volume `n`.

    Output `y, x` reads the image at `y + top + tap`, `x + left + tap`.
    """

    image: Buffer
    weight: Buffer
    groups: int
    top: int
    left: int

    @property
    def group_filters(self) -> int:
        """Those of one group."""
        return self.filters // self.groups


def convolution(stage: Stage, parameters: Sequence[Buffer]) -> Convolution | None:
    """The stage as such a convolution; None if it is none."""
    operands = factors(stage) or factors(stage, spatial=5)
    if operands is None:
        return None
    for image, weight in (operands, operands[::-1]):
        if is_filter(stage, weight, parameters) and _is_float(image) and _is_float(weight):
            return _convolution(stage, image, weight)
    return None


def _is_float(operand: Expr) -> bool:
    return isinstance(operand, TensorLoad) and str(operand.source.dtype) == "float32"


def _convolution(stage: Stage, image: TensorLoad, weight: TensorLoad) -> Convolution | None:
    if len(image.indices) != 4 or not _is_image(image.indices[0], stage):
        return None
    groups = _groups(stage, image, shape(weight.source))
    top = offset(image.indices[2], stage.spatial[-2], stage.reduced[1])
    left = offset(image.indices[3], stage.spatial[-1], stage.reduced[2])
    if groups is None or top is None or left is None:
        return None
    return Convolution(stage, image.source, weight.source, groups, top, left)


def _is_image(index: Expr, stage: Stage) -> bool:
    """Whether an index is that of the image which gives a plane of the result."""
    first, *planes = stage.spatial[:1] + stage.spatial[2:-2]
    if not planes:
        return is_axis(index, first)
    (plane,) = planes
    return constant(simplified(index - (first.var * plane.extent + plane.var))) == 0


def _groups(stage: Stage, image: TensorLoad, weight: tuple[int, ...]) -> int | None:
    filters, channels = weight[:2]
    groups, rest = divmod(shape(image.source)[1], channels)
    if rest or filters % groups:
        return None
    output, reduced = stage.spatial[1].var, stage.reduced[0].var
    expected: Any = reduced
    if groups > 1:
        expected = tirx.floordiv(output, filters // groups) * channels + reduced
    if stage.reduced[0].extent == 1 and constant(simplified(image.indices[1])) == 0:
        return groups
    return groups if constant(simplified(image.indices[1] - expected)) == 0 else None
