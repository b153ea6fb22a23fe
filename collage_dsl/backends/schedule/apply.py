"""Schedule a function: choose a kernel generator for each group of its stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import tvm
from tvm import s_tir

from collage_dsl.backends.schedule.any_size import sum_of_any_size
from collage_dsl.backends.schedule.attention import chain_statement
from collage_dsl.backends.schedule.chains import Chain, with_chains
from collage_dsl.backends.schedule.conditions import with_conditional_vectors
from collage_dsl.backends.schedule.context import Context
from collage_dsl.backends.schedule.contraction import SlidingKernel
from collage_dsl.backends.schedule.expressions import Buffer, loads
from collage_dsl.backends.schedule.flatten import flattened
from collage_dsl.backends.schedule.gemv import gemv_statement, is_vector_times_matrix
from collage_dsl.backends.schedule.general import general, with_starts
from collage_dsl.backends.schedule.groups import Group, Inlined, grouped, inline
from collage_dsl.backends.schedule.loops import Stmt, sequence
from collage_dsl.backends.schedule.machine import Machine, machine_of
from collage_dsl.backends.schedule.masks import with_masks
from collage_dsl.backends.schedule.neighbours import without_short_reductions
from collage_dsl.backends.schedule.planes import PlaneKernel, slides_over_planes
from collage_dsl.backends.schedule.pointwise import pointwise_statement
from collage_dsl.backends.schedule.reduction import reduction_statement
from collage_dsl.backends.schedule.resampling import resampled
from collage_dsl.backends.schedule.rows import rows_statement
from collage_dsl.backends.schedule.scheduled import Scheduled
from collage_dsl.backends.schedule.slices import sliced
from collage_dsl.backends.schedule.sliding import sliding
from collage_dsl.backends.schedule.stack import on_stack
from collage_dsl.backends.schedule.stages import Program, read_of_any_size
from collage_dsl.backends.schedule.transposed import by_phases
from collage_dsl.backends.schedule.turned import turned_statement
from collage_dsl.backends.schedule.work import with_enough_work


def scheduled(func: Any, target: tvm.target.Target) -> Any:
    """The scheduled function: by groups of stages, or by its own loops if it has another form."""
    machine = machine_of(target)
    program = read_of_any_size(func)
    if program is None or not program.is_known:
        slices = sliced(func, lambda one: Scheduled(scheduled(one, target)), machine.cores)
        if slices is not None:
            return slices.function
    if program is None:
        return general(func, machine)
    if any(is_empty(buffer) for buffer in program.parameters):
        return with_starts(func)
    return func.with_body(body_of(program, program.parameters, machine, statement))


def body_of(
    program: Program,
    parameters: Sequence[Buffer],
    machine: Machine,
    statement_of: Callable[[Group, Context], Stmt],
) -> Stmt:
    """
    The body of a function of `parameters`: the groups of `program`, one after the other, by
    `statement_of`. Those of a `Chain` are computed together.
    """
    inlined, groups = outlined(program)
    stored = _stored(groups, inlined, program.parameters)
    context = Context(machine, inlined, stored, stored.difference(program.parameters))
    parts = [
        chain_statement(part, context)
        if isinstance(part, Chain)
        else statement_of(part, with_enough_work(part, context))
        for part in groups
    ]
    kept = [buffer for buffer in program.locals if buffer in stored]
    body, allocated = flattened(sequence(parts), parameters, kept)
    if not program.is_known:
        body = with_conditional_vectors(body, allocated, machine)
    body = on_stack(with_masks(body, allocated, machine), machine.lanes)
    root = s_tir.SBlock([], [], [], "root", body, alloc_buffers=allocated)
    return s_tir.SBlockRealize([], True, root)


def outlined(program: Program) -> tuple[Inlined, tuple[Group | Chain, ...]]:
    """The stages that are computed where they are read, and the others in groups."""
    inlined, stages = inline(without_short_reductions(program))
    return inlined, with_chains(grouped(stages, inlined), inlined, program)


def is_empty(buffer: Buffer) -> bool:
    """Whether a tensor has no elements. Then there is little to schedule, and no tile fits."""
    return any(isinstance(extent, tvm.tirx.IntImm) and extent.value == 0 for extent in buffer.shape)


def statement(group: Group, context: Context) -> Stmt:
    """The loops of a group: the kernel generator that its form asks for."""
    if group.rows is not None:
        return rows_statement(group, context)
    if group.anchor is None:
        of_copies = resampled(group, context) or turned_statement(group, context)
        return of_copies or pointwise_statement(group, context)
    if not group.is_known:
        return sum_of_any_size(group, group.anchor, context)
    phases = by_phases(group.anchor, context.inlined)
    if phases is not None:
        forms, inlined = phases
        inside = replace(context, inlined=inlined)
        return sequence([SlidingKernel(form, group, inside).statement() for form in forms])
    form = sliding(group.anchor, context.inlined)
    if form is not None and is_vector_times_matrix(form):
        return gemv_statement(form, group, context)
    if form is not None and slides_over_planes(form):
        return PlaneKernel(form, group, context).statement()
    if form is not None:
        return SlidingKernel(form, group, context).statement()
    return reduction_statement(group, context)


def _stored(
    groups: Sequence[Group | Chain], inlined: Inlined, parameters: Sequence[Buffer]
) -> frozenset[Buffer]:
    """The buffers that must be in memory: parameters, and what another group reads."""
    stored = set(parameters)
    for group in groups:
        inside = {stage.buffer for stage in group.stages}
        for stage in group.stages:
            reads = loads(inlined.expand(stage.value))
            stored |= {read.source for read in reads if read.source not in inside}
    return frozenset(stored)
