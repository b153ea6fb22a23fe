"""Recognize a depthwise convolution with a pointwise one before it, after it, or both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad

from collage_dsl.backends.schedule.apply import is_empty, outlined
from collage_dsl.backends.schedule.context import value_at_end
from collage_dsl.backends.schedule.expressions import (
    Buffer,
    Expr,
    constant,
    integer,
    loads,
    replace_loads,
    simplified,
    substitute,
)
from collage_dsl.backends.schedule.groups import Group, Inlined, wide_extents
from collage_dsl.backends.schedule.images import OverImages, factors, is_filter, window
from collage_dsl.backends.schedule.packing import Source, source_of
from collage_dsl.backends.schedule.scheduled import VariantError
from collage_dsl.backends.schedule.stages import Program, Stage, read, shape


@dataclass(frozen=True, slots=True, eq=False)
class Part(OverImages):
    """
    One convolution in NCHW with what is computed from it at the same index.

    Output `y, x` reads `source` at `stride * y + top + tap`, `stride * x + left + tap`. The source
    is zero outside its bounds.
    """

    group: Group
    weight: Buffer
    source: Source
    stride: int
    top: int
    left: int

    @property
    def result(self) -> Buffer:
        return self.group.stages[-1].buffer

    @property
    def is_pointwise(self) -> bool:
        plain = (self.stride, self.top, self.left, *self.taps) == (1, 0, 0, 1, 1)
        inside = self.source.upper[2:] == (self.height, self.width)
        return plain and inside and not any(self.source.lower)

    @property
    def is_depthwise(self) -> bool:
        return self.channels == 1 and shape(self.weight)[0] == self.filters

    def value(self, at: Sequence[Expr], sum_: Expr) -> Expr:
        """The value of the result at an index, given the sum there."""
        return value_at_end(
            self.group.epilogue, wide_index(self.stage.buffer, at), {self.stage.buffer: sum_}
        )


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """`first` computes each channel that `depthwise` reads, and `last` sums what that computes."""

    first: Part | None
    depthwise: Part
    last: Part | None

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(p for p in (self.first, self.depthwise, self.last) if p is not None)


def wide_index(buffer: Buffer, at: Sequence[Expr]) -> list[Expr]:
    """The index without the dimensions of extent one."""
    return [index for index, extent in zip(at, shape(buffer), strict=True) if extent > 1]


def read_value(reader: Part, written: Part, at: Sequence[Expr], sum_: Expr) -> Expr:
    """What `reader` reads where the sum of `written` at index `at` is `sum_`."""
    value = written.value(at, sum_)
    inner = reader.source.value(_moved(reader.source, at))
    return replace_loads(inner, lambda r: value if r.source.same_as(written.result) else r)


def _moved(source: Source, at: Sequence[Expr]) -> list[Expr]:
    """An index of the tensor behind a source as an index of the padded tensor."""
    return [index + low for index, low in zip(at, source.lower, strict=True)]


def block_of(func: Any) -> tuple[Program, Block]:
    """The program of a function and its block. Raises `VariantError` if there is none."""
    program = read(func)
    if program is None or any(is_empty(buffer) for buffer in program.parameters):
        raise VariantError("the form of this function is not known")
    inlined, groups = outlined(program)
    parts = [_part(group, program, inlined) for group in groups if isinstance(group, Group)]
    known = [part for part in parts if part is not None]
    if len(known) < len(groups) or not 2 <= len(known) <= 3:
        raise VariantError("this is not a depthwise convolution and its pointwise ones alone")
    if not all(_follows(a, b, known, program, inlined) for a, b in pairwise(known)):
        raise VariantError("a value between the convolutions is read elsewhere too")
    return program, _block(known)


def _block(parts: Sequence[Part]) -> Block:
    kinds = [_kind(part) for part in parts]
    match kinds, parts:
        case ["pointwise", "depthwise", "pointwise"], (first, depthwise, last):
            return Block(first, depthwise, last)
        case ["pointwise", "depthwise"], (first, depthwise):
            return Block(first, depthwise, None)
        case ["depthwise", "pointwise"], (depthwise, last):
            return Block(None, depthwise, last)
    raise VariantError("no depthwise convolution stands between the pointwise ones")


def _kind(part: Part) -> str:
    if part.is_depthwise and not part.is_pointwise:
        return "depthwise"
    return "pointwise" if part.is_pointwise else "other"


def _part(group: Group, program: Program, inlined: Inlined) -> Part | None:
    stage, *others = group.stages
    domain = wide_extents(stage.spatial)
    operands = factors(stage)
    if operands is None or any(
        other.reduced or wide_extents(other.spatial) != domain for other in others
    ):
        return None
    for image, weight in (operands, operands[::-1]):
        weight = inlined.expand(weight)
        if is_filter(stage, weight, program.inputs) and isinstance(image, TensorLoad):
            return _convolution(group, image, weight.source, inlined)
    return None


def _convolution(group: Group, image: TensorLoad, weight: Buffer, inlined: Inlined) -> Part | None:
    stage = group.stages[0]
    batch, filters, *slid = stage.spatial
    inner, *taps = stage.reduced
    indices = [_without_short_axes(index, stage) for index in image.indices]
    if len(indices) != 4:
        return None
    down, across = map(window, indices[2:], slid, taps)
    if down is None or across is None or down[0] != across[0]:
        return None
    channel = filters if inner.extent == 1 else inner
    wanted = [_without_short_axes(axis.var, stage) for axis in (batch, channel)]
    if any(constant(simplified(i - w)) != 0 for i, w in zip(indices[:2], wanted, strict=True)):
        return None
    source = source_of(image.source, inlined, (2, 3))
    if not isinstance(source.fill, tirx.FloatImm) or source.fill.value or any(source.lower[:2]):
        return None
    return Part(stage, group, weight, source, *down, across[1])


def _without_short_axes(index: Expr, stage: Stage) -> Expr:
    short = (*stage.spatial, *stage.reduced)
    return substitute(index, {a.var: integer(0) for a in short if a.extent == 1})


def _follows(
    part: Part, after: Part, parts: Sequence[Part], program: Program, inlined: Inlined
) -> bool:
    """Whether `after` reads the result of `part` at its own index, and nothing else reads it."""
    buffers = [stage.buffer for stage in part.group.stages]
    if any(buffer in program.parameters for buffer in buffers):
        return False
    outside = [stage for other in parts if other is not part for stage in other.group.stages]
    readers = [
        (stage, access)
        for stage in outside
        for access in loads(inlined.expand(stage.value))
        if access.source in buffers
    ]
    if not readers or any(stage is not after.stage for stage, _ in readers):
        return False
    at = [tirx.Var(name, "int64") for name in "ncyx"]
    seen = loads(after.source.value(_moved(after.source, at)))
    inner = [access for access in seen if access.source in buffers]
    extents = shape(part.result)
    size = tuple(u - low for u, low in zip(after.source.upper, after.source.lower, strict=True))
    return (
        bool(inner)
        and size == extents
        and all(
            access.source.same_as(part.result)
            and all(
                extent == 1 or constant(simplified(index - var)) == 0
                for index, var, extent in zip(access.indices, at, extents, strict=True)
            )
            for access in inner
        )
    )
