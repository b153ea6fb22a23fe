"""Write a convolution with a stride as one of stride 1 over an image with more channels."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx

from collage_dsl.backends.schedule.expressions import Buffer, Expr, integer
from collage_dsl.backends.schedule.images import is_axis, window
from collage_dsl.backends.schedule.loops import load
from collage_dsl.backends.schedule.rewriting import images, operands_of, replaced
from collage_dsl.backends.schedule.stages import Program, Stage, extents, shape
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
        outputs, channels, *_ = shape(self.weight)
        sizes = (outputs, channels * self.stride**2, *self.taps)
        image = self.stage.spatial[0].var
        return replaced(program, self.stage, self.weight, self._image(), image, sizes)

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
        _, _, high, wide = shape(self.image)

        def value(n: Expr, c: Expr, y: Expr, x: Expr) -> Expr:
            channel, row, column = self._place(c, y, x)
            row, column = row + self.top, column + self.left
            inside = tirx.And(row < high, column < wide)
            return tirx.if_then_else(inside, load(self.image, n, channel, row, column), ZERO)

        return images("folded", (batch, channels, height + down - 1, width + across - 1), value)


def fold_of(stage: Stage, program: Program) -> Fold | None:
    """A stage of `program` as a convolution with a stride; None if it is none."""
    found = operands_of(stage, program)
    if found is None:
        return None
    image, weight = found
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
