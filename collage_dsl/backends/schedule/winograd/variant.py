"""The variants `winograd2` and `winograd4`, by the outputs along a side of a tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx

from collage_dsl.backends.schedule.apply import body_of, is_empty, statement
from collage_dsl.backends.schedule.context import Context
from collage_dsl.backends.schedule.expressions import integer, loads
from collage_dsl.backends.schedule.groups import Group
from collage_dsl.backends.schedule.loops import Stmt
from collage_dsl.backends.schedule.machine import machine_of
from collage_dsl.backends.schedule.phases import transposed_of
from collage_dsl.backends.schedule.rewriting import Rewriting
from collage_dsl.backends.schedule.scheduled import Scheduled, VariantError
from collage_dsl.backends.schedule.stages import Program, Stage, read, without_unused
from collage_dsl.backends.schedule.winograd.choice import blocks_of
from collage_dsl.backends.schedule.winograd.dequantized import with_float_filters
from collage_dsl.backends.schedule.winograd.dilated import dilated_of
from collage_dsl.backends.schedule.winograd.fold import fold_of
from collage_dsl.backends.schedule.winograd.form import Convolution, convolution
from collage_dsl.backends.schedule.winograd.kernel import WinogradKernel
from collage_dsl.backends.schedule.winograd.transforms import POINTS, Tile, Transform
from collage_dsl.backends.schedule.winograd.volumes import volumes_of
from collage_dsl.backends.schedule.winograd.weights import preparation
from collage_dsl.graph.convolutions import LEAST_CHANNELS

REWRITINGS: tuple[Callable[[Stage, Program], Rewriting | None], ...] = (
    fold_of,
    volumes_of,
    dilated_of,
    transposed_of,
)
"""Other convolutions, each as one of images with stride 1."""


def winograd(func: Any, target: Any, outputs: int) -> Scheduled:
    """`func` with its one convolution computed by tiles of `outputs` on a side."""
    program = read(func)
    if program is None or any(is_empty(buffer) for buffer in program.parameters):
        raise VariantError("the form of this function is not known to winograd")
    program, of_bytes = with_float_filters(program, _only_sum(program))
    stage = _only_sum(program)
    tried = (rewriting(stage, program) for rewriting in REWRITINGS)
    rewritten = next(filter(None, tried), None)
    if rewritten is not None:
        program = rewritten.program(program)
    program = without_unused(program)
    form = _convolution(program)
    tile = _tile(form, outputs)
    machine = machine_of(target)
    blocks = blocks_of(form, tile, machine)
    packed = tirx.decl_buffer(
        (integer(form.groups * blocks.packed),), "float32", form.weight.name, data_alignment=64
    )

    def computed(group: Group, context: Context) -> Stmt:
        if group.anchor is None or not group.anchor.buffer.same_as(form.stage.buffer):
            return statement(group, context)
        return WinogradKernel(form, blocks, packed, group, context).statement()

    position = program.parameters.index(form.weight)
    parameters = [*func.params[:position], packed, *func.params[position + 1 :]]
    body = body_of(program, parameters, machine, computed)
    function = tirx.PrimFunc(parameters, body, func.ret_type, func.attrs)
    return Scheduled(function, {position: preparation(form, blocks, packed, rewritten, of_bytes)})


def _only_sum(program: Program) -> Stage:
    reductions = [stage for stage in program.stages if stage.reduced]
    if len(reductions) != 1:
        raise VariantError(f"winograd computes one convolution, here are {len(reductions)} sums")
    return reductions[0]


def _convolution(program: Program) -> Convolution:
    """The one reduction of the program, if it is a convolution that winograd can compute."""
    form = convolution(_only_sum(program), program.inputs)
    if form is None:
        raise VariantError("this sum is no convolution of stride 1 in the layouts NCHW and OIHW")
    readers = [
        read.source.same_as(form.weight) for stage in program.stages for read in loads(stage.value)
    ]
    if sum(readers) != 1:
        raise VariantError("the weights of this convolution are read by other operators too")
    if form.groups > 1 and form.channels < LEAST_CHANNELS:
        raise VariantError(f"the groups have fewer than {LEAST_CHANNELS} channels")
    return form


def _tile(form: Convolution, outputs: int) -> Tile:
    """The tile, of one output along a side of the kernel that has one tap."""
    down, across = (Transform(_outputs(outputs, taps), taps) for taps in form.taps)
    known = down.inputs in POINTS and across.inputs in POINTS
    if form.taps == (1, 1) or not known:
        height, width = form.taps
        raise VariantError(f"winograd{outputs} computes no {height}x{width} convolutions")
    return Tile(down, across)


def _outputs(outputs: int, taps: int) -> int:
    """The outputs of a side: one more for an even number of taps, since inputs are even."""
    return 1 if taps == 1 else outputs + (taps % 2 == 0)
