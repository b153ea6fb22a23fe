"""Read a fused function as a list of stages, one for each store of its blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm_ffi
from tvm import ir, s_tir, sym, tirx
from tvm.ir import TensorLoad, Var

from collage_dsl.backends.schedule.expressions import (
    Buffer,
    Expr,
    constant,
    integer,
    loads,
    substitute,
)
from collage_dsl.backends.schedule.polynomials import Indices, least_sizes
from collage_dsl.backends.schedule.sizes import is_known, size_of


@dataclass(frozen=True, slots=True)
class Axis:
    """A block variable that runs from zero to `extent`."""

    var: Var
    extent: int


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """
    `buffer[indices] = value` for all `spatial`, summed (or otherwise combined) over `reduced`.

    A stage with `reduced` axes starts from `init`, and its value reads the element that it writes.
    """

    spatial: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    buffer: Buffer
    indices: tuple[Expr, ...]
    init: Expr | None
    value: Expr

    @property
    def is_known(self) -> bool:
        """Whether the extents of all axes are known."""
        return all(map(is_known, extents((*self.spatial, *self.reduced))))

    @property
    def pointwise(self) -> bool:
        """Whether the stage has no reduction and writes each element at its spatial axes."""
        return not self.reduced and self.plain

    @property
    def plain(self) -> bool:
        """Whether the indices written are exactly the spatial axes, in order."""
        if len(self.indices) != len(self.spatial):
            return False
        pairs = zip(self.indices, self.spatial, shape(self.buffer), strict=True)
        return all(
            (axis.extent == extent)
            and (axis.var.same_as(index) or (axis.extent == 1 and constant(index) == 0))
            for index, axis, extent in pairs
        )

    def reads(self) -> list[TensorLoad]:
        """Reads of other buffers."""
        return [read for read in loads(self.value) if not read.source.same_as(self.buffer)]

    def factors(self) -> tuple[Expr, Expr] | None:
        """The factors in `buffer = buffer + first * second`; None for another stage."""
        value = self.value
        if not isinstance(value, tirx.Add) or not isinstance(value.b, tirx.Mul):
            return None
        own = value.a
        if not isinstance(own, TensorLoad) or not own.source.same_as(self.buffer):
            return None
        return value.b.a, value.b.b


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """
    The stages of a function in order, with its parameters and local buffers. Those that are `kept`
    are in memory, even where their values could be computed when they are read.
    """

    parameters: tuple[Buffer, ...]
    locals: tuple[Buffer, ...]
    stages: tuple[Stage, ...]
    kept: frozenset[Buffer] = frozenset()

    @property
    def is_known(self) -> bool:
        """Whether all sizes are known."""
        sizes = [size for buffer in self.parameters for size in shape(buffer)]
        return all(map(is_known, sizes)) and all(stage.is_known for stage in self.stages)

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        """The parameters that no stage writes."""
        written = {stage.buffer for stage in self.stages}
        return tuple(buffer for buffer in self.parameters if buffer not in written)


def without_unused(program: Program) -> Program:
    """`program` without the stages that write what nothing reads."""
    stages: list[Stage] = []
    needed = set(program.parameters)
    for stage in reversed(program.stages):
        if stage.buffer in needed:
            stages.append(stage)
            needed |= {read.source for read in loads(stage.value)}
    return replace(program, stages=tuple(stages[::-1]))


def shape(buffer: Buffer) -> tuple[int, ...]:
    """The extents of a buffer. One that is not known is a `Size`."""
    return tuple(map(size_of, buffer.shape))


def extents(axes: Sequence[Axis]) -> tuple[int, ...]:
    return tuple(axis.extent for axis in axes)


def within(axes: Sequence[Axis]) -> sym.Analyzer:
    """What simplifies expressions over axes: it knows their ranges."""
    analyzer = sym.Analyzer()
    for axis in axes:
        analyzer.bind(axis.var, ir.Range(integer(0), integer(axis.extent)))
    return analyzer


def read(func: Any) -> Program | None:
    """The program of `func`, as `read_of_any_size`; None also if it has an unknown size."""
    program = read_of_any_size(func) if has_only_buffers(func) else None
    return program if program is not None and program.is_known else None


def has_only_buffers(func: Any) -> bool:
    """Whether a function takes no numbers."""
    return all(map(tirx.buffer.is_buffer_var, func.params))


def read_of_any_size(func: Any) -> Program | None:
    """
    The program of `func`, without the sizes that it takes as numbers; None if a block is anything
    but plain stores in plain loops.
    """
    root = func.body
    if not isinstance(root, s_tir.SBlockRealize) or root.block.match_buffers:
        return None
    stages: list[Stage] = []
    for nest in _statements(root.block.body):
        found = _stages(nest)
        if found is None:
            return None
        stages += found
    if not _well_formed(stages, func):
        return None
    program = Program(_buffers(func), tuple(root.block.alloc_buffers), tuple(stages))
    return program if program.is_known else _with_simple_indices(program)


def _with_simple_indices(program: Program) -> Program:
    """A program of unknown sizes, with what a reshape makes of indices taken apart again."""
    least = least_sizes((*program.parameters, *program.locals))

    def simple(stage: Stage) -> Stage:
        axes = (*stage.spatial, *stage.reduced)
        indices = Indices({axis.var: integer(axis.extent) for axis in axes}, least)
        return replace(stage, value=indices.in_reads(stage.value))

    return replace(program, stages=tuple(map(simple, program.stages)))


def _statements(body: Any) -> list[Any]:
    return list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]


def _buffers(func: Any) -> tuple[Buffer, ...]:
    return tuple(filter(tirx.buffer.is_buffer_var, func.params))


def _well_formed(stages: Sequence[Stage], func: Any) -> bool:
    buffers = [*_buffers(func), *(stage.buffer for stage in stages)]
    if any(len(buffer.ty.strides) for buffer in buffers):
        return False
    written = [stage.buffer for stage in stages]
    if len(set(written)) < len(written) or not all(stage.plain for stage in stages):
        return False
    return not any(
        read.source in written[position:]
        for position, stage in enumerate(stages)
        for read in (stage.reads() if stage.reduced else loads(stage.value))
    )


def _stages(nest: Any) -> list[Stage] | None:
    """
    The stages of one block in loops, one stage for each store. Each loop must be one axis.

    Two sums in one block become two stages, since neither reads the other. `_well_formed` refuses
    stores that do read each other, such as the index and the value of a maximum.
    """
    bounds: dict[Var, int] = {}
    while isinstance(nest, tirx.For):
        if nest.kind != tirx.ForKind.SERIAL or constant(nest.min) != 0:
            return None
        bounds[nest.loop_var] = size_of(nest.extent)
        nest = nest.body
    if not isinstance(nest, s_tir.SBlockRealize) or constant(nest.predicate) != 1:
        return None
    block = nest.block
    axes = _axes(nest, bounds)
    stores = _stores(block.body)
    if axes is None or stores is None or block.alloc_buffers or block.match_buffers:
        return None
    inits = [] if block.init is None else _stores(block.init)
    spatial, reduced = axes
    if inits is None or len(inits) != (len(stores) if reduced else 0):
        return None
    values = [init.value for init in inits] or [None] * len(stores)
    return [
        _scalar(Stage(spatial, reduced, write.buffer, tuple(write.indices), init, write.value))
        for write, init in zip(stores, values, strict=True)
    ]


def _scalar(stage: Stage) -> Stage:
    """
    The stage without its only spatial axis, of extent one, if it writes a scalar. One that divides
    stays as it is, and so the function is of an unknown form: there a quotient is rounded once, as
    the scales of quantized numbers have to be.
    """
    divisions: list[Any] = []
    tvm_ffi.structural_walk(stage.value, (tirx.Div, divisions.append))
    is_one = not stage.reduced and [axis.extent for axis in stage.spatial] == [1]
    if stage.indices or divisions or not is_one:
        return stage
    value = substitute(stage.value, {stage.spatial[0].var: tirx.IntImm("int64", 0)})
    return Stage((), (), stage.buffer, (), None, value)


def _stores(body: Any) -> list[Any] | None:
    """The stores of a block that otherwise only gives names to values; None for other blocks."""
    names: dict[Var, Expr] = {}
    stores = []
    for statement in _statements(body):
        if isinstance(statement, tirx.Bind):
            names[statement.var] = substitute(statement.value, names)
        elif isinstance(statement, tirx.BufferStore):
            value = substitute(statement.value, names)
            stores.append(tirx.BufferStore(statement.buffer, value, list(statement.indices)))
        else:
            return None
    return stores


def _axes(realize: Any, bounds: dict[Var, int]) -> tuple[tuple[Axis, ...], tuple[Axis, ...]] | None:
    spatial: list[Axis] = []
    reduced: list[Axis] = []
    for variable, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        extent = size_of(variable.dom.extent)
        if constant(variable.dom.min) != 0:
            return None
        loop_extent = bounds.get(value, -1) if isinstance(value, Var) else constant(value)
        if loop_extent != extent and not (extent == 1 and loop_extent == 0):
            return None
        if variable.iter_type not in (tirx.IterVar.DataPar, tirx.IterVar.CommReduce):
            return None
        if isinstance(value, Var):
            bounds = {loop: size for loop, size in bounds.items() if not loop.same_as(value)}
        kept = spatial if variable.iter_type == tirx.IterVar.DataPar else reduced
        kept.append(Axis(variable.var, extent))
    return tuple(spatial), tuple(reduced)
