"""The variant `gemm`: matrix products and convolutions of one tap with packed weights."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from collage_dsl.backends.schedule.apply import body_of, statement
from collage_dsl.backends.schedule.context import Context
from collage_dsl.backends.schedule.expressions import Buffer, integer
from collage_dsl.backends.schedule.gemm.blocks import Blocks, blocks_of
from collage_dsl.backends.schedule.gemm.form import Product
from collage_dsl.backends.schedule.gemm.kernel import GemmKernel
from collage_dsl.backends.schedule.gemm.panels import packing
from collage_dsl.backends.schedule.gemm.products import products_of
from collage_dsl.backends.schedule.groups import Group
from collage_dsl.backends.schedule.loops import Stmt
from collage_dsl.backends.schedule.machine import machine_of
from collage_dsl.backends.schedule.scheduled import Scheduled


def gemm(func: Any, target: Any) -> Scheduled:
    """`func` with its products computed from packed weights, and the rest as `direct` does."""
    program, forms = products_of(func)
    machine = machine_of(target)
    blocks = {stage: blocks_of(form, machine) for stage, form in forms.items()}
    packed = {stage: _packed(form, blocks[stage]) for stage, form in forms.items()}

    def generated(group: Group, context: Context) -> Stmt:
        stage = group.stages[0].buffer
        if stage not in forms:
            return statement(group, context)
        alone = Group(group.stages)
        return GemmKernel(forms[stage], blocks[stage], packed[stage], alone, context).statement()

    taken = {forms[stage].weights: buffer for stage, buffer in packed.items()}
    parameters = [taken.get(buffer, buffer) for buffer in program.parameters]
    body = body_of(program, parameters, machine, generated)
    prepared = {
        program.parameters.index(form.weights): packing(form, blocks[stage].panels, packed[stage])
        for stage, form in forms.items()
    }
    return Scheduled(tirx.PrimFunc(parameters, body, func.ret_type, func.attrs), prepared)


def _packed(form: Product, blocks: Blocks) -> Buffer:
    size = integer(blocks.panels.size)
    return tirx.decl_buffer((size,), "float32", form.weights.name, data_alignment=64)
