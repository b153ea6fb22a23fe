"""Put a convolution of images, and a stage for these images, in place of another convolution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tvm import tirx
from tvm.ir import TensorLoad

from collage_dsl.backends.schedule.expressions import Buffer, Expr
from collage_dsl.backends.schedule.images import factors, is_filter
from collage_dsl.backends.schedule.loops import load
from collage_dsl.backends.schedule.stages import Axis, Program, Stage


def only_convolution(
    program: Program, spatial: int = 4, reduced: int = 3
) -> tuple[Stage, TensorLoad, Buffer] | None:
    """
    The only reduction of a program, over so many axes, with the read of its data and its weights;
    None for a program that has another number of reductions, or whose reduction is none of these.
    """
    reductions = [stage for stage in program.stages if stage.reduced]
    if len(reductions) != 1:
        return None
    (stage,) = reductions
    operands = factors(stage, spatial, reduced)
    if operands is None:
        return None
    for data, weight in (operands, operands[::-1]):
        if is_filter(stage, weight, program.parameters) and isinstance(data, TensorLoad):
            return stage, data, weight.source
    return None


def images(name: str, sizes: Sequence[int], value: Callable[..., Expr]) -> Stage:
    """A stage for images of the `sizes` NCHW, with `value` at the image, channel, row, column."""
    axes = _axes("ncyx", sizes)
    at = tuple(axis.var for axis in axes)
    return Stage(axes, (), tirx.decl_buffer(sizes, "float32", name), at, None, value(*at))


def replaced(
    program: Program, stage: Stage, weight: Buffer, images: Stage, image: Expr, sizes: Sequence[int]
) -> Program:
    """
    `program` with `images`, and with a convolution of them by filters of the `sizes` OIHW in place
    of `stage`, which has `weight`. Each output is computed from the image with the number `image`.
    """
    filters = tirx.decl_buffer(sizes, "float32", weight.name)
    reduced = _axes("cij", sizes[1:])
    c, i, j = (axis.var for axis in reduced)
    _, o, *_, y, x = (axis.var for axis in stage.spatial)
    term = load(images.buffer, image, c, y + i, x + j) * load(filters, o, c, i, j)
    sum_ = load(stage.buffer, *stage.indices) + term
    at = program.stages.index(stage)
    stages = (images, replace(stage, reduced=reduced, value=sum_))
    return Program(
        tuple(filters if p.same_as(weight) else p for p in program.parameters),
        (*program.locals, images.buffer),
        (*program.stages[:at], *stages, *program.stages[at + 1 :]),
    )


def _axes(names: str, sizes: Sequence[int]) -> tuple[Axis, ...]:
    return tuple(Axis(tirx.Var(name, "int64"), e) for name, e in zip(names, sizes, strict=True))
