"""Decide which stages are inlined, and which stages share one nest of loops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tvm import tirx
from tvm.ir import TensorLoad, Var

from collage_dsl.backends.schedule.expressions import (
    Buffer,
    Expr,
    loads,
    operations,
    replace_loads,
    substitute,
    variables,
)
from collage_dsl.backends.schedule.stages import Axis, Program, Stage, shape

CHEAP = 6  # a value of at most this many arithmetic nodes is recomputed at each use, not stored


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """
    Stages computed in one nest of loops.

    One of: a reduction followed by stages that read it at their own index; several reductions
    over the same rows and the stages between them; only pointwise stages.
    """

    stages: tuple[Stage, ...]
    rows: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    @property
    def is_known(self) -> bool:
        """Whether all sizes are known."""
        return all(stage.is_known for stage in self.stages)

    @property
    def anchor(self) -> Stage | None:
        return self.stages[0] if self.stages[0].reduced else None

    @property
    def epilogue(self) -> tuple[Stage, ...]:
        return self.stages[1:] if self.anchor else self.stages


@dataclass(frozen=True, slots=True, eq=False)
class Inlined:
    """Pointwise stages that are computed where they are read, by the buffer that they replace."""

    stages: Mapping[Buffer, Stage]

    def expand(self, value: Expr) -> Expr:
        """`value` with reads of inlined buffers replaced by their values."""
        return replace_loads(value, self._held)

    def _held(self, read: TensorLoad) -> Expr:
        stage = self.stages.get(read.source)
        return read if stage is None else self.expand(value_at(stage, read.indices))


def value_at(stage: Stage, indices: Sequence[Expr]) -> Expr:
    """The value of a pointwise stage at `indices`."""
    axes = [axis.var for axis in stage.spatial]
    return substitute(stage.value, dict(zip(axes, indices, strict=True)))


def wide(axes: Iterable[Axis]) -> tuple[Axis, ...]:
    """The axes that are longer than one."""
    return tuple(axis for axis in axes if axis.extent > 1)


def wide_extents(axes: Iterable[Axis]) -> tuple[int, ...]:
    return tuple(axis.extent for axis in wide(axes))


def inline(program: Program) -> tuple[Inlined, tuple[Stage, ...]]:
    """The stages that are computed where they are read, and those that remain, in order."""
    inlined: dict[Buffer, Stage] = {}
    kept: list[Stage] = []
    stored = {*program.parameters, *program.kept}
    for stage in program.stages:
        expanded = _expanded(stage, Inlined(inlined))
        if stage.buffer not in stored and _inlinable(expanded, program):
            inlined[stage.buffer] = expanded
        else:
            kept.append(expanded)
    return Inlined(inlined), tuple(kept)


def _expanded(stage: Stage, inlined: Inlined) -> Stage:
    """A pointwise stage with its inputs inlined; a reduction is unchanged, to see its operands."""
    if stage.reduced:
        return stage
    value = inlined.expand(stage.value)
    return Stage(stage.spatial, (), stage.buffer, stage.indices, None, value)


def _inlinable(stage: Stage, program: Program) -> bool:
    if not stage.pointwise:
        return False
    arithmetic, calls = operations(stage.value)
    if not arithmetic and not calls:
        return True
    readers = [
        reader
        for reader in program.stages
        for read in reader.reads()
        if read.source.same_as(stage.buffer)
    ]
    if any(_multiplies(reader, stage.buffer) for reader in readers):
        return False
    return len(readers) == 1 or (arithmetic <= CHEAP and not calls)


def is_cheap(value: Expr) -> bool:
    """Whether a value is recomputed, or written out several times, rather than stored."""
    arithmetic, calls = operations(value)
    return arithmetic <= CHEAP and not calls


def _multiplies(reader: Stage, buffer: Buffer) -> bool:
    """Whether a reduction reads the buffer again for each vector of its other operand."""
    if not reader.reduced or len(reader.reads()) < 2:
        return False
    spatial = [axis.var for axis in wide(reader.spatial)]
    if not spatial:
        return False
    reads = [read for read in reader.reads() if read.source.same_as(buffer)]
    return not any(_uses(read, spatial[-1]) for read in reads)


def _uses(read: TensorLoad, variable: Var) -> bool:
    return any(variable in variables(index) for index in read.indices)


def grouped(stages: Sequence[Stage], inlined: Inlined) -> tuple[Group, ...]:
    """The stages in groups, ordered so that each group comes after its inputs."""
    groups: list[Group] = []
    position = 0
    while position < len(stages):
        group = _rows(stages[position:], inlined)
        if group is None:
            group = Group((stages[position],))
        position += len(group.stages)
        if group.rows is None:
            while position < len(stages) and _joins(stages[position], group.stages):
                group = Group((*group.stages, stages[position]))
                position += 1
        groups.append(group)
    return tuple(groups)


def _joins(stage: Stage, group: Sequence[Stage]) -> bool:
    """Whether a pointwise stage needs only the group's values at its own index."""
    domain = wide_extents(group[0].spatial)
    if not stage.pointwise or wide_extents(stage.spatial) != domain:
        return False
    buffers = {member.buffer for member in group}
    inside = [read for read in stage.reads() if read.source in buffers]
    return bool(inside) and all(at_index(read, wide(stage.spatial)) for read in inside)


def at_index(read: TensorLoad, axes: Sequence[Axis]) -> bool:
    """Whether the read is of the element at `axes`. Axes of extent one do not matter."""
    expected = wide(axes)
    moving = [i for i, extent in zip(read.indices, shape(read.source), strict=True) if extent > 1]
    return len(moving) == len(expected) and all(
        axis.var.same_as(index) for axis, index in zip(expected, moving, strict=True)
    )


def _rows(stages: Sequence[Stage], inlined: Inlined) -> Group | None:
    """The longest run of stages, from the first, that can be computed one row at a time."""
    first = next((stage for stage in stages if stage.reduced), None)
    if first is None or not contiguous(first, inlined):
        return None
    outer, inner = wide_extents(first.spatial), wide_extents(first.reduced)
    if not inner:
        return None
    members: list[Stage] = []
    for stage in stages:
        if not _is_row_stage(stage, outer, inner, members, inlined):
            break
        members.append(stage)
    if first not in members:
        return None
    return Group(tuple(members), rows=(outer, inner))


def contiguous(stage: Stage, inlined: Inlined) -> bool:
    """
    Whether a reduction runs along memory: the last reduced axis is the last index, alone, of what
    is read along it. Not if each element is used for several outputs, as in a matrix product.
    """
    reduced = wide(stage.reduced)
    if not reduced or not _associative(stage):
        return False
    last = reduced[-1].var
    reads = [r for r in loads(inlined.expand(stage.value)) if not r.source.same_as(stage.buffer)]
    moving = [read for read in reads if _uses(read, last)]
    return bool(moving) and all(_ends_with(r, last) for r in moving) and _reuse(stage, moving) < 4


def _associative(stage: Stage) -> bool:
    """Whether the reduction is a sum from zero, a maximum or a minimum of its terms."""
    value = stage.value
    if not isinstance(value, (tirx.Add, tirx.Max, tirx.Min)) or "x" in str(stage.buffer.dtype):
        return False
    own = [read for read in loads(value) if read.source.same_as(stage.buffer)]
    if len(own) != 1 or not own[0].same_as(value.a):
        return False
    start = stage.init
    if not isinstance(start, (tirx.FloatImm, tirx.IntImm)):
        return False
    return not isinstance(value, tirx.Add) or start.value == 0


def _ends_with(read: TensorLoad, variable: Var) -> bool:
    *others, last = [
        index for index, extent in zip(read.indices, shape(read.source), strict=True) if extent > 1
    ] or [None]
    return variable.same_as(last) and not any(variable in variables(index) for index in others)


def _reuse(stage: Stage, reads: Sequence[TensorLoad]) -> int:
    """The least number of outputs that each element read is used for."""
    spatial = wide(stage.spatial)
    return min(prod(axis.extent for axis in spatial if not _uses(read, axis.var)) for read in reads)


def _is_row_stage(
    stage: Stage,
    outer: tuple[int, ...],
    inner: tuple[int, ...],
    members: Sequence[Stage],
    inlined: Inlined,
) -> bool:
    axes = (*wide(stage.spatial), *wide(stage.reduced))
    if stage.reduced:
        if wide_extents(stage.spatial) != outer or wide_extents(stage.reduced) != inner:
            return False
        if not contiguous(stage, inlined):
            return False
    elif wide_extents(stage.spatial) not in (outer, outer + inner):
        return False
    if members and not stage.reduced and not _connected(stage, members, inlined):
        return False
    return all(_in_row(read, axes, outer, members) for read in loads(inlined.expand(stage.value)))


def _connected(stage: Stage, members: Sequence[Stage], inlined: Inlined) -> bool:
    buffers = {member.buffer for member in members}
    return any(read.source in buffers for read in loads(inlined.expand(stage.value)))


def _in_row(
    read: TensorLoad, axes: Sequence[Axis], outer: tuple[int, ...], members: Sequence[Stage]
) -> bool:
    """Whether a read of a member's buffer stays in the row. Other buffers may be read anywhere."""
    member = next((m for m in members if m.buffer.same_as(read.source)), None)
    if member is None:
        return True
    whole_row = not member.reduced and wide_extents(member.spatial) != outer
    return at_index(read, axes if whole_row else axes[: len(outer)])


def in_order(read: TensorLoad, axes: Sequence[Axis]) -> bool:
    """Whether the read does not use the axes, or uses them only as its last dimensions."""
    moving = {axis.var for axis in axes}
    used = [variables(index) & moving for index in read.indices]
    if not any(used):
        return True
    places = [d for d, extent in enumerate(shape(read.source)) if extent > 1][-len(axes) :]
    if len(places) < len(axes) or any(used[d] for d in range(len(used)) if d not in places):
        return False
    return all(
        axis.var.same_as(read.indices[d]) and axis.extent == shape(read.source)[d]
        for d, axis in zip(places, axes, strict=True)
    )
