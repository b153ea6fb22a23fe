"""Recognize a convolution whose filters are a weight, and pack its weights."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad

from collage_dsl.backends.schedule.expressions import Buffer, Expr, integer, substitute, variables
from collage_dsl.backends.schedule.gemm.panels import Panel, Panels
from collage_dsl.backends.schedule.groups import Inlined, wide
from collage_dsl.backends.schedule.loops import Stmt, loop, nest, split_index, store
from collage_dsl.backends.schedule.scheduled import preparing
from collage_dsl.backends.schedule.sliding import Sliding, sliding
from collage_dsl.backends.schedule.stages import Axis, Stage, extents
from collage_dsl.backends.schedule.transposed import by_phases


@dataclass(frozen=True, slots=True, eq=False)
class ImageProduct:
    """
    A convolution in NCHW as a matrix product for each image and group.

    The rows of the matrix are the pixels of the result, its columns the `column` axis of the
    filters. Row and column are multiplied over the channels and taps of `window`.
    """

    window: Sliding
    weight: TensorLoad

    @property
    def stage(self) -> Stage:
        return self.window.stage

    @property
    def weights(self) -> Buffer:
        return self.weight.source

    @property
    def column(self) -> Axis:
        return self.window.rows[0]

    @property
    def height(self) -> int:
        return self.window.y.axis.extent if self.window.y else 1

    @property
    def width(self) -> int:
        return self.window.x.axis.extent

    @property
    def channels(self) -> int:
        return prod(extents(self.window.channels))

    @property
    def taps(self) -> int:
        return prod(extents(self.window.taps))

    @property
    def groups(self) -> tuple[Axis, ...]:
        """The axes with a matrix of weights of their own for each index."""
        used = variables(self.weight)
        return tuple(axis for axis in self.window.batch if axis.var in used)

    @property
    def fixed(self) -> dict[tirx.Var, Expr]:
        """The index of each axis of extent one."""
        axes = (*self.stage.spatial, *self.stage.reduced)
        return {axis.var: integer(0) for axis in axes if axis.extent == 1}

    def inner(self, channel: Expr, tap: Expr) -> dict[tirx.Var, Expr]:
        """The index of each axis that is summed over."""
        channels, taps = self.window.channels, self.window.taps
        parts = [*split_index(channel, extents(channels)), *split_index(tap, extents(taps))]
        return {axis.var: at for axis, at in zip((*channels, *taps), parts, strict=True)}


def image_product(stage: Stage, inlined: Inlined) -> ImageProduct | None:
    """The stage as a convolution whose second factor is the weight; None if it is none."""
    if by_phases(stage, inlined) is not None or not isinstance(stage.value, tirx.Add):
        return None
    form = sliding(stage, inlined)
    if form is None or not isinstance(form.still, TensorLoad) or len(form.rows) != 1:
        return None
    moves = wide(stage.spatial)[-1].var in variables(stage.value.b.a)
    return ImageProduct(form, form.still) if moves else None


@dataclass(frozen=True, slots=True)
class PackedFilters:
    """
    The packed weights: for each group and each part of the channels, `panels` of the columns.

    They are read in this order, from the first to the last.
    """

    panels: Panels
    parts: int
    groups: int

    @property
    def size(self) -> int:
        return self.groups * self.parts * self.panels.size

    def first(self, group: Expr, part: Expr) -> Expr:
        """Where the panels of a part begin."""
        return (group * self.parts + part) * self.panels.size


def filter_packing(form: ImageProduct, filters: PackedFilters, packed: Buffer) -> Any:
    """The PrimFunc that packs the weights of a convolution: it takes them and writes `packed`."""
    panels, taps = filters.panels, form.taps
    channels = panels.inner // taps

    def part(group: Expr, number: Expr) -> Stmt:
        start = filters.first(group, number)
        at = form.fixed | group_index(form, group)

        def element(panel: Panel, inner: Expr, column: Expr) -> Stmt:
            channel = number * channels + tirx.floordiv(inner, taps)
            where = at | form.inner(channel, tirx.floormod(inner, taps))
            where |= {form.column.var: panel.column + column}
            value = substitute(form.weight, where)
            if panel.used < panel.width:
                value = tirx.if_then_else(column < panel.used, value, tirx.const(0, packed.dtype))
            return store(packed, value, start + panels.place(panel, inner, column))

        def rows(panel: Panel) -> Stmt:
            return nest((panels.inner, panel.width), lambda k: element(panel, *k))

        return panels.each(rows)

    body = loop(filters.groups, lambda g: loop(filters.parts, lambda p: part(g, p)), name="group")
    return preparing(form.weights, packed, body)


def group_index(form: ImageProduct, group: Expr) -> dict[tirx.Var, Expr]:
    """The index of each axis of the groups."""
    parts = split_index(group, extents(form.groups))
    return {axis.var: at for axis, at in zip(form.groups, parts, strict=True)}
