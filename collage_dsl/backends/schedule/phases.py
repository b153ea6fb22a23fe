"""
Write a transposed convolution as a convolution of stride 1 that has a group for each phase.

A *phase* of the outputs are those whose rows and columns differ by multiples of the strides. They
meet the same taps of the kernel, and are a convolution of stride 1 over the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import tirx
from tvm.ir import TensorLoad

from collage_dsl.backends.schedule.expressions import Buffer, Expr, integer
from collage_dsl.backends.schedule.groups import Inlined, inline, value_at
from collage_dsl.backends.schedule.images import factors, is_axis, offset
from collage_dsl.backends.schedule.loops import load
from collage_dsl.backends.schedule.rewriting import (
    axes,
    extended,
    images,
    with_filters,
    with_stages,
)
from collage_dsl.backends.schedule.stages import (
    Program,
    Stage,
    extents,
    shape,
    without_unused,
)
from collage_dsl.backends.schedule.transposed import spread_of


@dataclass(frozen=True, slots=True)
class Side:
    """
    How one axis of `extent` outputs reads the image without zeros in between.

    Output `stride * n + phase` reads the elements `n + t + offset(phase)`, and multiplies them by
    tap `stride * t + tap(phase)` of `taps`. With zeros in between, the element 0 is read by output
    0 with tap `zeros`.
    """

    stride: int
    extent: int
    taps: int
    zeros: int

    def tap(self, phase: Expr) -> Expr:
        return tirx.floormod(self.zeros - phase, self.stride)

    def offset(self, phase: Expr) -> Expr:
        return -tirx.floordiv(self.zeros - phase, self.stride)

    @property
    def outputs(self) -> int:
        """Those of the longest phase."""
        return -(-self.extent // self.stride)

    @property
    def read(self) -> int:
        """The elements that a phase reads."""
        return self.outputs + self.taps // self.stride - 1

    @property
    def first(self) -> int:
        """The offset of phase 0, which is the least."""
        return -(self.zeros // self.stride)

    @property
    def reach(self) -> int:
        """The elements that all phases read."""
        last = -((self.zeros - self.stride + 1) // self.stride)
        return self.read + last - self.first


@dataclass(frozen=True, slots=True, eq=False)
class Transposed:
    """
    A transposed convolution over `image`, with as many taps for each phase.

    `dense` are the stages that compute the image. The stage `turned` reads the `weight` at filter,
    channel and taps, as `stage` multiplies them.

    In the convolution of groups, filter `phase * filters + f` computes a phase of filter `f`. Each
    group reads an image of its own, which is `image` from another element on.
    """

    stage: Stage
    image: Buffer
    dense: tuple[Stage, ...]
    weight: Buffer
    turned: Stage
    sides: tuple[Side, Side]

    def program(self, program: Program) -> Program:
        """`program` with the convolution of groups, whose filters are a parameter."""
        filters = self._filters().buffer
        return with_filters(self._with(program, filters), self.weight, filters)

    def from_weight(self, program: Program) -> Program:
        """`program` with the convolution of groups, whose filters a stage reads of the weight."""
        filters = self._filters()
        return self._with(program, filters.buffer, filters)

    def tap(self, weight: Buffer, output: Expr, channel: Expr, i: Expr, j: Expr) -> Expr:
        """A weight of the convolution of groups."""
        down, across = self.sides
        phase, filter_ = self._split(output, self.stage.spatial[1].extent)
        y, x = self._split(phase, across.stride)
        row, column = down.tap(y) + i * down.stride, across.tap(x) + j * across.stride
        read = value_at(self.turned, (filter_, channel, row, column))
        return load(weight, *read.indices)

    def _with(self, program: Program, filters: Buffer, *more: Stage) -> Program:
        down, across = self.sides
        whole = extended(self.image, (down.first, across.first), (down.reach, across.reach))
        repeated = self._repeated(whole.buffer)
        convolution = self._convolution(repeated.buffer, filters)
        result = self._result(convolution.buffer)
        stages = (*self.dense, whole, repeated, *more, convolution, result)
        return with_stages(program, self.stage, stages, kept=[whole.buffer])

    def _filters(self) -> Stage:
        down, across = self.sides
        _, filters, *_ = extents(self.stage.spatial)
        channels, *_ = extents(self.stage.reduced)
        taps = (side.taps // side.stride for side in self.sides)
        sizes = (down.stride * across.stride * filters, channels, *taps)
        return images("filters", sizes, lambda *at: self.tap(self.weight, *at))

    def _repeated(self, whole: Buffer) -> Stage:
        batch, channels, *_ = shape(whole)
        down, across = self.sides

        def value(n: Expr, c: Expr, y: Expr, x: Expr) -> Expr:
            phase, channel = self._split(c, channels)
            lower, right = self._split(phase, across.stride)
            row = y + down.offset(lower) - down.first
            return load(whole, n, channel, row, x + across.offset(right) - across.first)

        sizes = (batch, down.stride * across.stride * channels, down.read, across.read)
        return images("repeated", sizes, value)

    def _convolution(self, repeated: Buffer, filters: Buffer) -> Stage:
        stage = self.stage
        batch, of_phase, *_ = extents(stage.spatial)
        outputs, channels, *taps = shape(filters)
        sizes = (batch, outputs, *(side.outputs for side in self.sides))
        spatial, reduced = axes("noyx", sizes), axes("cij", (channels, *taps))
        n, o, y, x = at = tuple(axis.var for axis in spatial)
        c, i, j = (axis.var for axis in reduced)
        channel = c if outputs == of_phase else tirx.floordiv(o, of_phase) * channels + c
        term = load(repeated, n, channel, y + i, x + j) * load(filters, o, c, i, j)
        buffer = tirx.decl_buffer(list(map(integer, sizes)), "float32", "convolved")
        return Stage(spatial, reduced, buffer, at, stage.init, load(buffer, *at) + term)

    def _result(self, convolved: Buffer) -> Stage:
        stage = self.stage
        down, across = (side.stride for side in self.sides)
        n, o, y, x = (axis.var for axis in stage.spatial)
        phase = tirx.floormod(y, down) * across + tirx.floormod(x, across)
        output = phase * stage.spatial[1].extent + o
        value = load(convolved, n, output, tirx.floordiv(y, down), tirx.floordiv(x, across))
        return Stage(stage.spatial, (), stage.buffer, stage.indices, None, value)

    @staticmethod
    def _split(index: Expr, size: int) -> tuple[Expr, Expr]:
        return tirx.floordiv(index, size), tirx.floormod(index, size)


def without_zeros(program: Program) -> Program:
    """`program` with a convolution of groups in place of each transposed one, if it has any."""
    for stage in program.stages:
        transposed = transposed_of(stage, program) if stage.reduced else None
        program = transposed.from_weight(program) if transposed else program
    return without_unused(program)


def transposed_of(stage: Stage, program: Program) -> Transposed | None:
    """A stage of `program` as a transposed convolution; None if it is none."""
    operands = factors(stage)
    inlined, _ = inline(program)
    for image, weight in (operands, operands[::-1]) if operands else ():
        turned = _turned(stage, weight, inlined, program.inputs)
        if turned is not None and isinstance(image, TensorLoad) and len(image.indices) == 4:
            return _transposed(stage, image, turned, inlined)
    return None


def _transposed(
    stage: Stage, image: TensorLoad, turned: tuple[Buffer, Stage], inlined: Inlined
) -> Transposed | None:
    first, channel, *slid = image.indices
    if not is_axis(first, stage.spatial[0]) or not is_axis(channel, stage.reduced[0]):
        return None
    spread = spread_of(image, inlined)
    firsts, strides = (spread.first[2:], spread.stride[2:]) if spread else ((0, 0), (1, 1))
    sides = []
    places = zip(firsts, strides, slid, stage.spatial[2:], stage.reduced[1:], strict=True)
    for start, stride, index, axis, tap in places:
        base = offset(index, axis, tap)
        if base is None or tap.extent % stride:
            return None
        sides.append(Side(stride, axis.extent, tap.extent, start - base))
    down, across = sides
    source, dense = (spread.dense.buffer, (spread.dense,)) if spread else (image.source, ())
    return Transposed(stage, source, dense, *turned, (down, across))


def _turned(
    stage: Stage, weight: Expr, inlined: Inlined, parameters: Sequence[Buffer]
) -> tuple[Buffer, Stage] | None:
    """The weight, and the stage that reads it at filter, channel and taps."""
    turned = inlined.stages.get(weight.source) if isinstance(weight, TensorLoad) else None
    wanted = (stage.spatial[1], *stage.reduced)
    if turned is None or extents(turned.spatial) != extents(wanted):
        return None
    read = turned.value
    if not isinstance(read, TensorLoad) or not all(map(is_axis, weight.indices, wanted)):
        return None
    return (read.source, turned) if read.source in parameters else None
