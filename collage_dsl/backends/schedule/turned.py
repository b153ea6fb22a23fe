"""
Loops of stages that read along another axis than they write, as permutations do.

A square block of such a read is transposed in registers, so that memory is read and written in
vectors. K. S. Gatlin, L. Carter: *Memory hierarchy considerations for fast transpose and
bit-reversals* (HPCA 1999) compares ways to do so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from tvm import tirx
from tvm.ir import TensorLoad

from collage_dsl.backends.schedule.context import Context, finish
from collage_dsl.backends.schedule.expressions import (
    Buffer,
    Expr,
    choices,
    coefficients,
    equal,
    integer,
    loads,
    replace_loads,
    substitute,
)
from collage_dsl.backends.schedule.flatten import position, rejoined
from collage_dsl.backends.schedule.groups import Group, wide
from collage_dsl.backends.schedule.loops import (
    Stmt,
    load,
    loop,
    parallel_nest,
    scoped,
    scratch,
    sequence,
    split_index,
    store,
    vector,
)
from collage_dsl.backends.schedule.pointwise import pointwise_statement
from collage_dsl.backends.schedule.polynomials import Indices, least_sizes
from collage_dsl.backends.schedule.sizes import is_known
from collage_dsl.backends.schedule.stages import Axis, Stage, extents, shape, within
from collage_dsl.backends.schedule.winograd.maps import Lines
from collage_dsl.backends.schedule.winograd.transpose import transposed

_LEAST = 8
"""Smaller blocks take as long as reading numbers one by one."""

_LONG = 16
"""How many times as long an axis is beside which another is short."""

_TURNED = frozenset(
    {f"{sort}{bits}" for sort in ("int", "uint") for bits in (8, 16, 32, 64)}
    | {"float16", "float32", "float64"}
)
"""The dtypes of which vectors are named and shuffled. TVM 0.27 fails for bfloat16."""


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """A read in a stage, whose axes longer than one are `axes`, and its `place` in memory."""

    load: TensorLoad
    stage: Stage
    axes: tuple[Axis, ...]
    place: Expr
    steps: Sequence[int | None] | None
    """How far in memory a step along each axis is, None if not known; None if that changes."""

    def is_same(self, other: _Read) -> bool:
        return self.stage is other.stage and equal(self.load, other.load)

    @property
    def dtype(self) -> str:
        return str(self.load.source.dtype)

    def at(self, index: Sequence[Expr]) -> Expr:
        """The same at an index, which has an entry for each of the axes."""
        where = {axis.var: place for axis, place in zip(self.axes, index, strict=True)}
        dims = shape(self.load.source)
        return load(self.load.source, *split_index(substitute(self.place, where), dims))


def _reads(stage: Stage) -> list[_Read]:
    """The reads of a stage. A reshape divides indices; most of that is undone here."""
    reads, axes = loads(stage.value), wide(stage.spatial)
    moving = [axis.var for axis in axes]
    analyzer = within(stage.spatial)

    def of_known_size(read: TensorLoad) -> _Read:
        where = position(read.source, read.indices)
        place = rejoined(analyzer.simplify(where), analyzer)
        factors = coefficients(place, moving)
        return _Read(read, stage, axes, place, None if factors is None else factors[0])

    if all(is_known(size) for read in reads for size in shape(read.source)):
        return list(map(of_known_size, reads))
    below = {axis.var: integer(axis.extent) for axis in stage.spatial}
    indices = Indices(below, least_sizes([stage.buffer, *(read.source for read in reads)]))

    def of_any_size(read: TensorLoad) -> _Read:
        place = indices.simplified(position(read.source, read.indices))
        return _Read(read, stage, axes, place, indices.steps(place, moving))

    return list(map(of_any_size, reads))


def turned_statement(group: Group, context: Context) -> Stmt | None:
    """The stages in square blocks; None if they read along the axis that they write."""
    found = _turned_reads(group.stages)
    if found is None:
        return None
    along, reads = found
    axes = extents(wide(group.stages[0].spatial))
    side = 1 << (min(context.machine.lanes, axes[along], axes[-1]).bit_length() - 1)
    repeats = axes[along] % side or axes[-1] % side
    if side < _LEAST or (repeats and _may_overwrite(group.stages, reads, context)):
        return None
    blocks = _Blocks(group, context, axes, along, reads, side).statement()
    short = [integer(axes[each]) < side for each in (along, -1) if not is_known(axes[each])]
    if not short:
        return blocks
    return tirx.IfThenElse(reduce(tirx.Or, short), pointwise_statement(group, context), blocks)


def _may_overwrite(stages: Sequence[Stage], turned: Sequence[_Read], context: Context) -> bool:
    """
    Whether TVM may write a result over a local buffer that it reads in order, as nothing reads
    that later. Then no element can be computed twice.
    """
    held = {stage.buffer for stage in stages} | {read.load.source for read in turned}
    sources = {read.source for stage in stages for read in loads(stage.value)}
    return not sources.isdisjoint(context.local - held)


def _turned_reads(stages: Sequence[Stage]) -> tuple[int, list[_Read]] | None:
    """
    The number of the axis along which values are read, which is not the last, and these reads, once
    each. None if there are none, or if they are along several axes, or if a step along an axis is
    not always the same in memory.
    """
    members = {stage.buffer for stage in stages}
    along: set[int] = set()
    found: list[_Read] = []
    for stage in stages:
        if len(wide(stage.spatial)) < 2 or choices(stage.value):
            return None
        for read in _reads(stage):
            if read.load.source in members:
                continue
            steps = read.steps
            if steps is None:
                return None
            if steps[-1] not in (0, 1) and not any(map(read.is_same, found)):
                along.add(steps.index(1) if 1 in steps else -1)
                found.append(read)
    is_one = len(along) == 1 and -1 not in along
    return (along.pop(), found) if is_one and all(r.dtype in _TURNED for r in found) else None


@dataclass(frozen=True, slots=True, eq=False)
class _Blocks:
    """
    Square blocks with `side` elements of the last axis and of the axis `along`, of those of the
    group that are longer than one; they have the extents `axes`.
    """

    group: Group
    context: Context
    axes: tuple[int, ...]
    along: int
    reads: Sequence[_Read]
    side: int

    def statement(self) -> Stmt:
        """
        Blocks in strips along the axis that is read in order: then each part of the memory that is
        read is fetched ahead. If that axis is short, along the one that is written in order.
        """
        last = len(self.axes) - 1
        inner = last if self.axes[last] >= _LONG * self.axes[self.along] else self.along
        outer = [axis for axis in range(last) if axis != self.along]
        strip = last + self.along - inner
        counts = [*(self.axes[axis] for axis in outer), self._count(strip)]

        def task(index: list[Expr]) -> Stmt:
            *places, number = index
            at = dict(zip(outer, places, strict=True)) | {strip: self._first(strip, number)}

            def block(number: Expr) -> Stmt:
                whole = at | {inner: self._first(inner, number)}
                return self._block([whole[axis] for axis in range(last + 1)])

            return loop(self._count(inner), block, name="block")

        return parallel_nest(counts, self.context.machine.cores, task)

    def _count(self, axis: int) -> int:
        return -(-self.axes[axis] // self.side)

    def _first(self, axis: int, block: Expr) -> Expr:
        """Where a block begins. The last one ends with the axis, and repeats some of another."""
        if self.axes[axis] % self.side:
            return tirx.min(block * self.side, integer(self.axes[axis] - self.side))
        return block * self.side

    def _moved(self, first: Sequence[Expr], along: Expr | int, last: Expr | int) -> list[Expr]:
        """The index so many steps after the first of a block."""
        at = list(first)
        at[self.along] = at[self.along] + along
        at[-1] = at[-1] + last
        return at

    def _block(self, first: Sequence[Expr]) -> Stmt:
        side = self.side
        blocks = [scratch(side * side, read.dtype, "turned") for read in self.reads]
        pairs = list(zip(self.reads, blocks, strict=True))

        def held(stage: Stage) -> Stage:
            def from_block(value: TensorLoad) -> Expr:
                for read, block in pairs:
                    if read.stage is stage and equal(value, read.load):
                        along = read.axes[self.along].var - first[self.along]
                        return load(block, along * side + (read.axes[-1].var - first[-1]))
                return value

            return replace(stage, value=replace_loads(stage.value, from_block))

        stages = [held(stage) for stage in self.group.stages]

        def row(number: Expr) -> Stmt:
            def element(lane: Expr) -> Stmt:
                return finish(self.context, stages, self._moved(first, number, lane), {})

            return vector(side, element)

        turned = [self._turned(read, first, block) for read, block in pairs]
        return scoped(blocks, sequence([*turned, loop(side, row, name="row")]))

    def _turned(self, read: _Read, first: Sequence[Expr], block: Buffer) -> Stmt:
        """Write what is read for a block, by rows of the result."""
        side = self.side
        lines = Lines(side, read.dtype)
        rows = [scratch(side, read.dtype, "row", "local") for _ in range(side)]

        def copied(number: int) -> Stmt:
            def element(lane: Expr) -> Stmt:
                return store(rows[number], read.at(self._moved(first, lane, number)), lane)

            return vector(side, element)

        lines.statements += map(copied, range(side))
        vectors = [lines.read(row, integer(0)) for row in rows]
        for number, column in enumerate(transposed(lines, vectors)):
            lines.write(block, column, integer(number * side))
        return scoped(rows, sequence(lines.statements), "vectors")
