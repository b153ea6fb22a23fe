"""Write a convolution of volumes as one of images, each with the channels of several planes."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx

from collage_dsl.backends.schedule.expressions import (
    Buffer,
    Expr,
    coefficients,
    constant,
    integer,
    simplified,
)
from collage_dsl.backends.schedule.images import is_axis, offset
from collage_dsl.backends.schedule.loops import load
from collage_dsl.backends.schedule.rewriting import images, operands_of, replaced
from collage_dsl.backends.schedule.stages import Program, Stage, extents, shape


@dataclass(frozen=True, slots=True, eq=False)
class Volumes:
    """
    A convolution over `volume` in NCDHW with weights in OIDHW, whose rows and columns have stride
    1. Output plane `d` reads the planes `stride * d + step * tap + front`.

    It is a convolution of images: image `n * depth + d` gives plane `d` of volume `n`, and its
    channel `c * taps + tap` is channel `c` of the plane that `tap` reads.
    """

    stage: Stage
    volume: Buffer
    weight: Buffer
    stride: int
    step: int
    front: int
    top: int
    left: int

    def program(self, program: Program) -> Program:
        """`program` with a stage for the images, and the convolution over them."""
        outputs, channels, taps, *sides = shape(self.weight)
        sizes = (outputs, channels * taps, *sides)
        batch, _, depth, *_ = self.stage.spatial
        image = batch.var * depth.extent + depth.var
        return replaced(program, self.stage, self.weight, self._images(), image, sizes)

    def tap(self, weight: Buffer, output: Expr, channel: Expr, i: int, j: Expr) -> Expr:
        """A weight of the convolution of images."""
        return load(weight, output, *self._channel(channel), integer(i), j)

    def _channel(self, channel: Expr) -> tuple[Expr, Expr]:
        """The channel of the volume and the tap that a channel of an image stands for."""
        taps = self.stage.reduced[1].extent
        return tirx.floordiv(channel, taps), tirx.floormod(channel, taps)

    def _images(self) -> Stage:
        batch, _, depth, height, width = extents(self.stage.spatial)
        channels, taps, down, across = extents(self.stage.reduced)

        def value(n: Expr, c: Expr, y: Expr, x: Expr) -> Expr:
            channel, tap = self._channel(c)
            plane = tirx.floormod(n, depth) * self.stride + tap * self.step + self.front
            volume = tirx.floordiv(n, depth)
            return load(self.volume, volume, channel, plane, y + self.top, x + self.left)

        sizes = (batch * depth, channels * taps, height + down - 1, width + across - 1)
        return images("images", sizes, value)


def volumes_of(stage: Stage, program: Program) -> Volumes | None:
    """A stage of `program` as a convolution of volumes; None if it is none."""
    found = operands_of(stage, program, spatial=5, reduced=4)
    if found is None:
        return None
    volume, weight = found
    if len(volume.indices) != 5:
        return None
    first, second, plane, *image = volume.indices
    batch, _, depth, *slid = stage.spatial
    channel, tap, *taps = stage.reduced
    if not is_axis(first, batch) or not is_axis(second, channel):
        return None
    planes = coefficients(plane, [depth.var, tap.var])
    front = constant(simplified(planes[1])) if planes else None
    top, left = map(offset, image, slid, taps)
    if planes is None or front is None or top is None or left is None:
        return None
    stride, step = planes[0]
    return Volumes(stage, volume.source, weight, stride, step, front, top, left)
