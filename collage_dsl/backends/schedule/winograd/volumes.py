"""Write a convolution of volumes as one of images, each with the channels of several planes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm import tirx
from tvm.ir import TensorLoad

from collage_dsl.backends.schedule.expressions import (
    Buffer,
    Expr,
    coefficients,
    constant,
    integer,
    simplified,
)
from collage_dsl.backends.schedule.images import factors, is_axis, is_filter
from collage_dsl.backends.schedule.loops import load
from collage_dsl.backends.schedule.stages import Axis, Program, Stage, extents, shape
from collage_dsl.backends.schedule.winograd.form import offset


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
        images, filters = self._images(), self._filters()
        at = program.stages.index(self.stage)
        stages = (images, self._convolution(images.buffer, filters))
        parameters = tuple(filters if p.same_as(self.weight) else p for p in program.parameters)
        return Program(
            parameters,
            (*program.locals, images.buffer),
            (*program.stages[:at], *stages, *program.stages[at + 1 :]),
        )

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
        sizes = (batch * depth, channels * taps, height + down - 1, width + across - 1)
        axes = _axes("ncyx", sizes)
        n, c, y, x = (axis.var for axis in axes)
        channel, tap = self._channel(c)
        plane = tirx.floormod(n, depth) * self.stride + tap * self.step + self.front
        volume = tirx.floordiv(n, depth)
        value = load(self.volume, volume, channel, plane, y + self.top, x + self.left)
        buffer = tirx.decl_buffer(sizes, "float32", "images")
        return Stage(axes, (), buffer, (n, c, y, x), None, value)

    def _filters(self) -> Buffer:
        outputs, channels, taps, *sides = shape(self.weight)
        return tirx.decl_buffer((outputs, channels * taps, *sides), "float32", self.weight.name)

    def _convolution(self, images: Buffer, filters: Buffer) -> Stage:
        stage = self.stage
        reduced = _axes("cij", shape(filters)[1:])
        n, o, d, y, x = (axis.var for axis in stage.spatial)
        c, i, j = (axis.var for axis in reduced)
        image = n * stage.spatial[2].extent + d
        term = load(images, image, c, y + i, x + j) * load(filters, o, c, i, j)
        return replace(stage, reduced=reduced, value=load(stage.buffer, *stage.indices) + term)


def _axes(names: str, sizes: tuple[int, ...]) -> tuple[Axis, ...]:
    return tuple(Axis(tirx.Var(name, "int64"), e) for name, e in zip(names, sizes, strict=True))


def volumes_of(program: Program) -> Volumes | None:
    """The only reduction of a program as a convolution of volumes; None if it is none."""
    reductions = [stage for stage in program.stages if stage.reduced]
    if len(reductions) != 1:
        return None
    (stage,) = reductions
    operands = factors(stage, spatial=5, reduced=4)
    if operands is None:
        return None
    for volume, weight in (operands, operands[::-1]):
        if is_filter(stage, weight, program.parameters) and isinstance(volume, TensorLoad):
            return _volumes(stage, volume, weight.source)
    return None


def _volumes(stage: Stage, volume: TensorLoad, weight: Buffer) -> Volumes | None:
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
