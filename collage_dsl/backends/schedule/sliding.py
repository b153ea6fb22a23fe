"""
Recognize convolutions, matrix products and pooling, which one register-tiled kernel computes.

All of them combine two operands over reduced axes: one moves along the last output axis (it is
packed and read as vectors), the other does not (it is read as scalars; pooling has none). A
convolution in NCHW is a matrix product of its weights with an image that slides; depthwise
convolution and pooling have one row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad

from collage_dsl.backends.schedule.expressions import (
    Expr,
    coefficients,
    constant,
    loads,
    simplified,
    substitute,
    variables,
)
from collage_dsl.backends.schedule.groups import Inlined, wide
from collage_dsl.backends.schedule.packing import Window
from collage_dsl.backends.schedule.stages import Axis, Stage, shape, within

COMBINERS = {tirx.Add: "sum", tirx.Max: "max", tirx.Min: "min"}


@dataclass(frozen=True, slots=True, eq=False)
class Sliding:
    """
    A reduction whose `moving` operand slides along `x` (and `y`), and whose `still` one does not.

    `rows` are the spatial axes of the still operand only: each packed tile is used for all of
    them. `batch` are all other spatial axes.
    """

    stage: Stage
    combine: Any
    still: Expr | None
    moving: TensorLoad
    batch: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    y: Window | None
    x: Window
    channels: tuple[Axis, ...]
    taps: tuple[Axis, ...]


def sliding(stage: Stage, inlined: Inlined) -> Sliding | None:
    """The stage as a sliding reduction; None if it is not one."""
    combined = _operands(stage)
    if combined is None or not wide(stage.spatial) or str(stage.buffer.dtype) != "float32":
        return None
    combine, first, second = combined
    last = wide(stage.spatial)[-1]
    if second is None:
        return sliding_of(stage, combine, None, first, inlined)
    moves = [last.var in variables(first), last.var in variables(second)]
    if moves == [False, True]:
        return sliding_of(stage, combine, first, second, inlined)
    if moves == [True, False]:
        return sliding_of(stage, combine, second, first, inlined)
    return None


def _operands(stage: Stage) -> tuple[Any, Expr, Expr | None] | None:
    """The combining operator and the one or two factors of `buffer = buffer ∘ first * second`."""
    value = stage.value
    if type(value) not in COMBINERS or not _reads_itself(stage, value.a):
        return None
    term = value.b
    if isinstance(term, TensorLoad):
        return type(value), term, None
    if isinstance(value, tirx.Add) and isinstance(term, tirx.Mul):
        return tirx.Add, term.a, term.b
    return None


def _reads_itself(stage: Stage, expression: Expr) -> bool:
    return isinstance(expression, TensorLoad) and expression.source.same_as(stage.buffer)


def sliding_of(
    stage: Stage, combine: Any, still: Expr | None, moving: Expr, inlined: Inlined
) -> Sliding | None:
    """`stage`, which combines products of `still` and `moving`, if it slides over `moving`."""
    if not isinstance(moving, TensorLoad):
        return None
    stage, still, moving = _groups_split(stage, still, moving)
    if still is not None:
        still = inlined.expand(still)
        if len(loads(still)) != 1:
            return None
    in_still = variables(still) if still is not None else set()
    in_moving = variables(moving)
    spatial = wide(stage.spatial)
    x = window(stage, moving, spatial[-1])
    if x is None:
        return None
    y = None
    if len(spatial) > 1 and spatial[-2].var in in_moving and spatial[-2].var not in in_still:
        y = window(stage, moving, spatial[-2])
    if y is not None and y.dimension == x.dimension:
        return None
    columns = {x.axis} | ({y.axis} if y else set())
    rows = tuple(a for a in spatial if a.var not in in_moving and still is not None)
    batch = tuple(a for a in spatial if a not in columns and a not in rows)
    taps = tuple(axis for w in (y, x) if w for axis, _ in w.taps)
    channels = tuple(axis for axis in stage.reduced if axis not in taps)
    free = {axis.var for axis in channels} | {axis.var for axis in batch}
    fixed = {w.dimension for w in (y, x) if w}
    rest = [index for d, index in enumerate(moving.indices) if d not in fixed]
    trivial = {axis.var for axis in stage.spatial if axis.extent == 1}
    if any(not variables(index) <= free | trivial for index in rest):
        return None
    return Sliding(stage, combine, still, moving, batch, rows, y, x, channels, taps)


def window(stage: Stage, moving: TensorLoad, axis: Axis) -> Window | None:
    """How `axis` slides over the only dimension of the operand that uses it."""
    dimensions = [d for d, index in enumerate(moving.indices) if axis.var in variables(index)]
    if len(dimensions) != 1:
        return None
    index = moving.indices[dimensions[0]]
    axes = [axis, *(a for a in stage.reduced if a.var in variables(index))]
    split = coefficients(index, [a.var for a in axes])
    if split is None:
        return None
    factors, base = split
    base = constant(simplified(base))
    if base is None or any(factor <= 0 for factor in factors):
        return None
    taps = tuple(zip(axes[1:], factors[1:], strict=True))
    if any(_elsewhere(moving, dimensions[0], tap) for tap, _ in taps):
        return None
    return Window(axis, dimensions[0], factors[0], base, taps)


def _elsewhere(moving: TensorLoad, dimension: int, axis: Axis) -> bool:
    others = (index for d, index in enumerate(moving.indices) if d != dimension)
    return any(axis.var in variables(index) for index in others)


def _groups_split(
    stage: Stage, still: Expr | None, moving: TensorLoad
) -> tuple[Stage, Expr | None, Any]:
    """
    Split the channel axis of a grouped convolution into the group and the channel in the group.

    The image is read at `channel // size`, the weights at `channel`. After the split, only the
    weights use the channel in the group, so it becomes a row of the product.
    """
    for axis in wide(stage.spatial):
        size = _quotient(moving, axis)
        if still is None or size is None or size == axis.extent or axis.extent % size:
            continue
        group = Axis(tirx.Var("group", "int64"), axis.extent // size)
        member = Axis(tirx.Var("member", "int64"), size)
        whole = group.var * size + member.var
        indices = [
            within((group, member)).simplify(substitute(i, {axis.var: whole}))
            for i in moving.indices
        ]
        moving = tirx.BufferLoad(moving.source, indices)
        still = substitute(still, {axis.var: whole})
        place = stage.spatial.index(axis)
        spatial = (*stage.spatial[:place], group, member, *stage.spatial[place + 1 :])
        written = tuple(substitute(i, {axis.var: whole}) for i in stage.indices)
        stage = replace(stage, spatial=spatial, indices=written)
    return stage, still, moving


def _quotient(moving: TensorLoad, axis: Axis) -> int | None:
    """The divisor, if the operand is indexed with `axis // divisor` and never with `axis`."""
    found: list[int] = []

    def visit(index: Expr) -> bool:
        if isinstance(index, tirx.FloorDiv) and axis.var.same_as(index.a):
            divisor = constant(index.b)
            found.append(divisor or 0)
            return divisor is not None
        if isinstance(index, (tirx.Add, tirx.Sub, tirx.Mul)):
            return visit(index.a) and visit(index.b)
        return axis.var not in variables(index)

    if not all(visit(index) for index in moving.indices) or len(set(found)) != 1:
        return None
    return found[0]


def row_stride(form: Sliding) -> int:
    """The distance in elements between neighbouring rows of the still operand in memory."""
    if form.still is None or not form.rows:
        return 1
    read = loads(form.still)[0]
    stride, distance = 1, 0
    for index, extent in reversed(list(zip(read.indices, shape(read.source), strict=True))):
        split = coefficients(index, [form.rows[-1].var])
        distance += stride * split[0][0] if split else 0
        stride *= extent
    return distance or 1


def written_at(form: Sliding, at: Mapping[tirx.Var, Expr]) -> list[Expr]:
    """The index that the stage writes, without dimensions of extent one."""
    pairs = zip(form.stage.indices, shape(form.stage.buffer), strict=True)
    return [substitute(index, at) for index, extent in pairs if extent > 1]
