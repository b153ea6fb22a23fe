"""The variant `gemm`: matrix products and convolutions of one tap with packed weights."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tvm import tirx

from collage_dsl.backends.schedule.apply import body_of, is_empty, statement
from collage_dsl.backends.schedule.context import Context
from collage_dsl.backends.schedule.expressions import Buffer, integer, loads
from collage_dsl.backends.schedule.gemm.blocks import Blocks, blocks_of
from collage_dsl.backends.schedule.gemm.form import Product, product_of
from collage_dsl.backends.schedule.gemm.kernel import GemmKernel
from collage_dsl.backends.schedule.gemm.panels import packing
from collage_dsl.backends.schedule.groups import Group, grouped, inline, wide_extents
from collage_dsl.backends.schedule.loops import Stmt
from collage_dsl.backends.schedule.machine import machine_of
from collage_dsl.backends.schedule.scheduled import Scheduled, VariantError
from collage_dsl.backends.schedule.stages import Program, read


def gemm(func: Any, target: Any) -> Scheduled:
    """`func` with its products computed from packed weights, and the rest as `direct` does."""
    program = read(func)
    if program is None or any(is_empty(buffer) for buffer in program.parameters):
        raise VariantError("the form of this function is not known to gemm")
    machine = machine_of(target)
    forms = _products(program)
    if not forms:
        raise VariantError("no sum of this function is a product with a weight that is read once")
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


def _products(program: Program) -> dict[Buffer, Product]:
    """The products whose weight is a parameter that nothing else reads, by what they write."""
    inlined, stages = inline(program)
    values = [inlined.expand(stage.value) for stage in stages]
    read_once = Counter(access.source for value in values for access in loads(value))
    forms: dict[Buffer, Product] = {}
    for group in grouped(stages, inlined):
        form = product_of(group.stages[0], inlined) if _is_alone(group) else None
        if form and form.weights in program.parameters and read_once[form.weights] == 1:
            forms[group.stages[0].buffer] = form
    return forms


def _is_alone(group: Group) -> bool:
    """Whether a group has one reduction, its first stage, and other stages at the same index."""
    first, *others = group.stages
    domain = wide_extents(first.spatial)
    return bool(first.reduced) and all(
        not stage.reduced and wide_extents(stage.spatial) == domain for stage in others
    )


def _packed(form: Product, blocks: Blocks) -> Buffer:
    size = integer(blocks.panels.size)
    return tirx.decl_buffer((size,), "float32", form.weights.name, data_alignment=64)
