"""Put a convolution of images, and a stage for these images, in place of another convolution."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Protocol

from tvm import tirx
from tvm.ir import TensorLoad

from collage_dsl.backends.schedule.expressions import Buffer, Expr, integer
from collage_dsl.backends.schedule.images import factors, is_filter
from collage_dsl.backends.schedule.loops import load
from collage_dsl.backends.schedule.sizes import is_known
from collage_dsl.backends.schedule.stages import Axis, Program, Stage, shape

ZERO = tirx.FloatImm("float32", 0.0)


class Rewriting(Protocol):
    """Another convolution, as one of images with stride 1."""

    @property
    def weight(self) -> Buffer:
        """Its weights, a parameter."""

    def program(self, program: Program) -> Program:
        """`program` with the convolution of images in its place."""

    def tap(self, weight: Buffer, output: Expr, channel: Expr, i: int, j: Expr) -> Expr:
        """A weight of the convolution of images, for a channel of its group, read from `weight`."""


def operands_of(
    stage: Stage, program: Program, spatial: int = 4, reduced: int = 3
) -> tuple[TensorLoad, Buffer] | None:
    """The data of a convolution over so many axes, and its weight; None for another stage."""
    operands = factors(stage, spatial, reduced)
    for data, weight in (operands, operands[::-1]) if operands else ():
        if is_filter(stage, weight, program.inputs) and isinstance(data, TensorLoad):
            return data, weight.source
    return None


def images(name: str, sizes: Sequence[int], value: Callable[..., Expr]) -> Stage:
    """A stage for images of the `sizes` NCHW, with `value` at the image, channel, row, column."""
    spatial = axes("ncyx", sizes)
    at = tuple(axis.var for axis in spatial)
    return Stage(
        spatial,
        (),
        tirx.decl_buffer(list(map(integer, sizes)), "float32", name),
        at,
        None,
        value(*at),
    )


def extended(image: Buffer, first: tuple[int, int], sizes: tuple[int, int]) -> Stage:
    """
    `sizes` rows and columns of `image` from its row and column `first` on, with zeros beside it.
    """
    batch, channels, *image_sizes = shape(image)

    def value(n: Expr, c: Expr, *at: Expr) -> Expr:
        places = [index + start if start else index for index, start in zip(at, first, strict=True)]
        read = load(image, n, c, *places)
        for place, start, size, extent in zip(places, first, sizes, image_sizes, strict=True):
            if start < 0:
                read = tirx.if_then_else(place >= 0, read, ZERO)
            beyond = start + size - extent
            if not is_known(beyond) or beyond > 0:
                read = tirx.if_then_else(place < extent, read, ZERO)
        return read

    return images("extended", (batch, channels, *sizes), value)


def replaced(
    program: Program, stage: Stage, weight: Buffer, images: Stage, image: Expr, sizes: Sequence[int]
) -> Program:
    """
    `program` with `images`, and with a convolution of them by filters of the `sizes` OIHW in place
    of `stage`, which has `weight`. Each output is computed from the image with the number `image`.
    """
    filters = tirx.decl_buffer(sizes, "float32", weight.name)
    reduced = axes("cij", sizes[1:])
    c, i, j = (axis.var for axis in reduced)
    _, o, *_, y, x = (axis.var for axis in stage.spatial)
    term = load(images.buffer, image, c, y + i, x + j) * load(filters, o, c, i, j)
    sum_ = load(stage.buffer, *stage.indices) + term
    made = with_stages(program, stage, (images, replace(stage, reduced=reduced, value=sum_)))
    return with_filters(made, weight, filters)


def with_stages(
    program: Program, stage: Stage, stages: Sequence[Stage], kept: Collection[Buffer] = ()
) -> Program:
    """`program` with `stages` in place of `stage`. The last of them writes what it wrote."""
    at = program.stages.index(stage)
    return Program(
        program.parameters,
        (*program.locals, *(each.buffer for each in stages[:-1])),
        (*program.stages[:at], *stages, *program.stages[at + 1 :]),
        program.kept.union(kept),
    )


def with_filters(program: Program, weight: Buffer, filters: Buffer) -> Program:
    """`program` with the parameter `filters` in place of `weight`."""
    parameters = tuple(filters if p.same_as(weight) else p for p in program.parameters)
    return replace(program, parameters=parameters)


def axes(names: str, sizes: Sequence[int]) -> tuple[Axis, ...]:
    """An axis for each letter of `names`."""
    return tuple(Axis(tirx.Var(name, "int64"), e) for name, e in zip(names, sizes, strict=True))
