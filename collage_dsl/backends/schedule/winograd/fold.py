"""Write a convolution with a stride as one of stride 1 over an image with more channels."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm import tirx
from tvm.ir import TensorLoad

from collage_dsl.backends.schedule.expressions import Buffer, Expr, integer
from collage_dsl.backends.schedule.images import factors, is_axis, is_filter, window
from collage_dsl.backends.schedule.loops import load
from collage_dsl.backends.schedule.stages import Axis, Program, Stage, extents, shape
from collage_dsl.graph.convolutions import FOLDED_SIDES

ZERO = tirx.FloatImm("float32", 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """
    A convolution over `image` with a stride, whose first output reads it at `top` and `left`.

    Channel `(c * stride + dy) * stride + dx` of the folded image has the elements of channel `c`
    whose row and column are `dy` and `dx` more than a multiple of the stride. The folded weights
    have fewer taps, and those past the end of a filter are zero.
    """

    stage: Stage
    image: Buffer
    weight: Buffer
    stride: int
    top: int
    left: int

    def program(self, program: Program) -> Program:
        """`program` with a stage for the folded image, and the convolution over it."""
        image, filters = self._image(), self._filters()
        at = program.stages.index(self.stage)
        stages = (image, self._convolution(image.buffer, filters))
        parameters = tuple(filters if p.same_as(self.weight) else p for p in program.parameters)
        return Program(
            parameters,
            (*program.locals, image.buffer),
            (*program.stages[:at], *stages, *program.stages[at + 1 :]),
        )

    def tap(self, weight: Buffer, output: Expr, channel: Expr, i: int, j: Expr) -> Expr:
        """A folded weight."""
        channel, y, x = self._place(channel, integer(i), j)
        _, _, height, width = shape(weight)
        inside = tirx.And(y < height, x < width)
        return tirx.if_then_else(inside, load(weight, output, channel, y, x), ZERO)

    def _place(self, channel: Expr, y: Expr, x: Expr) -> tuple[Expr, Expr, Expr]:
        """The channel, row and column of an element of a folded tensor."""
        s = self.stride
        down, across = tirx.floormod(tirx.floordiv(channel, s), s), tirx.floormod(channel, s)
        return tirx.floordiv(channel, s * s), y * s + down, x * s + across

    @property
    def taps(self) -> tuple[int, int]:
        _, height, width = extents(self.stage.reduced)
        return -(-height // self.stride), -(-width // self.stride)

    def _image(self) -> Stage:
        batch, _, height, width = extents(self.stage.spatial)
        down, across = self.taps
        channels = self.stage.reduced[0].extent * self.stride**2
        sizes = (batch, channels, height + down - 1, width + across - 1)
        axes = tuple(
            Axis(tirx.Var(name, "int64"), e) for name, e in zip("ncyx", sizes, strict=True)
        )
        n, c, y, x = (axis.var for axis in axes)
        channel, row, column = self._place(c, y, x)
        row, column = row + self.top, column + self.left
        _, _, high, wide = shape(self.image)
        inside = tirx.And(row < high, column < wide)
        value = tirx.if_then_else(inside, load(self.image, n, channel, row, column), ZERO)
        buffer = tirx.decl_buffer(sizes, "float32", "folded")
        return Stage(axes, (), buffer, (n, c, y, x), None, value)

    def _filters(self) -> Buffer:
        outputs, channels, *_ = shape(self.weight)
        sizes = (outputs, channels * self.stride**2, *self.taps)
        return tirx.decl_buffer(sizes, "float32", self.weight.name)

    def _convolution(self, image: Buffer, filters: Buffer) -> Stage:
        stage, (_, *sizes) = self.stage, shape(filters)
        reduced = tuple(
            Axis(tirx.Var(name, "int64"), e) for name, e in zip("cij", sizes, strict=True)
        )
        n, o, y, x = (axis.var for axis in stage.spatial)
        c, i, j = (axis.var for axis in reduced)
        term = load(image, n, c, y + i, x + j) * load(filters, o, c, i, j)
        return replace(stage, reduced=reduced, value=load(stage.buffer, *stage.indices) + term)


def fold_of(program: Program) -> Fold | None:
    """The only reduction of a program as a convolution with a stride; None if it is none."""
    reductions = [stage for stage in program.stages if stage.reduced]
    if len(reductions) != 1:
        return None
    (stage,) = reductions
    operands = factors(stage)
    if operands is None:
        return None
    for image, weight in (operands, operands[::-1]):
        if is_filter(stage, weight, program.parameters) and isinstance(image, TensorLoad):
            return _fold(stage, image, weight.source)
    return None


def _fold(stage: Stage, image: TensorLoad, weight: Buffer) -> Fold | None:
    if len(image.indices) != 4:
        return None
    batch, _, *slid = stage.spatial
    channel, *taps = stage.reduced
    first, second, *indices = image.indices
    if not is_axis(first, batch) or not is_axis(second, channel):
        return None
    down, across = map(window, indices, slid, taps)
    if down is None or across is None or down[0] != across[0] or down[0] < 2:
        return None
    fold = Fold(stage, image.source, weight, down[0], down[1], across[1])
    return fold if all(side in FOLDED_SIDES for side in fold.taps) else None
