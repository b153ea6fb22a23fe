"""Write a dilated convolution as one without dilation, over an image of its phases."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm import tirx

from collage_dsl.backends.schedule.expressions import (
    Buffer,
    Expr,
    coefficients,
    constant,
    integer,
    simplified,
)
from collage_dsl.backends.schedule.images import is_axis
from collage_dsl.backends.schedule.loops import load
from collage_dsl.backends.schedule.rewriting import (
    axes,
    extended,
    images,
    operands_of,
    with_stages,
)
from collage_dsl.backends.schedule.stages import Axis, Program, Stage, extents, shape


@dataclass(frozen=True, slots=True, eq=False)
class Dilated:
    """
    A convolution of stride 1 whose taps are `steps` rows and columns apart. The first output reads
    row `top` and column `left` of `image`.

    Outputs whose rows and columns differ by multiples of `steps` are one *phase*: they read the
    same phase of the image, at neighbouring taps. So the phases of the image are put below each
    other into one image, which is convolved without dilation. The rows that read two phases are not
    used. `channel` is the index of the channel that a tap reads.
    """

    stage: Stage
    image: Buffer
    weight: Buffer
    channel: Expr
    steps: tuple[int, int]
    top: int
    left: int

    def program(self, program: Program) -> Program:
        """`program` with stages for the phases of the image, their convolution, and the result."""
        down, across = self.steps
        sizes = down * self._rows, across * (self._sizes[1] + self.stage.reduced[2].extent - 1)
        whole = extended(self.image, (self.top, self.left), sizes)
        phases = self._phases(whole.buffer)
        convolution = self._convolution(phases.buffer)
        stages = (whole, phases, convolution, self._result(convolution.buffer))
        return with_stages(program, self.stage, stages, kept=(whole.buffer, phases.buffer))

    def tap(self, weight: Buffer, output: Expr, channel: Expr, i: int, j: Expr) -> Expr:
        return load(weight, output, channel, integer(i), j)

    @property
    def _sizes(self) -> tuple[int, int]:
        """The rows and columns of outputs of the longest phase."""
        height, width = extents(self.stage.spatial)[2:]
        down, across = self.steps
        return -(-height // down), -(-width // across)

    @property
    def _rows(self) -> int:
        """Those that a phase of the image has."""
        return self._sizes[0] + self.stage.reduced[1].extent - 1

    def _phases(self, whole: Buffer) -> Stage:
        batch, channels, high, wide = shape(whole)
        down, across = self.steps

        def value(n: Expr, c: Expr, y: Expr, x: Expr) -> Expr:
            phase, row = tirx.floordiv(y, self._rows), tirx.floormod(y, self._rows)
            row = row * down + tirx.floordiv(phase, across)
            return load(whole, n, c, row, x * across + tirx.floormod(phase, across))

        return images("phases", (batch, channels, high * across, wide // across), value)

    def _convolution(self, phases: Buffer) -> Stage:
        stage = self.stage
        n, o, *_ = stage.spatial
        rows = shape(phases)[2] - stage.reduced[1].extent + 1
        y, x = axes("yx", (rows, self._sizes[1]))
        spatial = (n, o, y, x)
        buffer = tirx.decl_buffer(extents(spatial), "float32", "convolved")
        at = tuple(axis.var for axis in spatial)
        c, i, j = (axis.var for axis in stage.reduced)
        term = load(phases, n.var, self.channel, y.var + i, x.var + j)
        term = term * load(self.weight, o.var, c, i, j)
        value = load(buffer, *at) + term
        return replace(stage, spatial=spatial, buffer=buffer, indices=at, value=value)

    def _result(self, convolved: Buffer) -> Stage:
        stage, (down, across) = self.stage, self.steps
        n, o, y, x = (axis.var for axis in stage.spatial)
        phase = tirx.floormod(y, down) * across + tirx.floormod(x, across)
        row = phase * self._rows + tirx.floordiv(y, down)
        value = load(convolved, n, o, row, tirx.floordiv(x, across))
        return Stage(stage.spatial, (), stage.buffer, stage.indices, None, value)


def dilated_of(stage: Stage, program: Program) -> Dilated | None:
    """A stage of `program` as a dilated convolution; None if it is none."""
    found = operands_of(stage, program)
    if found is None:
        return None
    image, weight = found
    if len(image.indices) != 4:
        return None
    first, channel, *indices = image.indices
    down, across = map(_window, indices, stage.spatial[2:], stage.reduced[1:])
    if not is_axis(first, stage.spatial[0]) or down is None or across is None:
        return None
    steps = down[0], across[0]
    if steps == (1, 1):
        return None
    return Dilated(stage, image.source, weight, channel, steps, down[1], across[1])


def _window(index: Expr, axis: Axis, tap: Axis) -> tuple[int, int] | None:
    """The distance of the taps and the constant of `axis + step * tap + constant`."""
    split = coefficients(index, [axis.var, tap.var])
    first = constant(simplified(split[1])) if split else None
    if split is None or first is None:
        return None
    stride, distance = split[0]
    step = distance if tap.extent > 1 else 1
    slides = axis.extent == 1 or stride == 1
    return (step, first) if slides and step > 0 else None
