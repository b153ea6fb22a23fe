"""The variant `depthwise`: a depthwise convolution together with its pointwise ones."""

from __future__ import annotations

from typing import Any

from tvm import s_tir, tirx

from collage_dsl.backends.schedule.context import Context
from collage_dsl.backends.schedule.depthwise.form import Part, block_of
from collage_dsl.backends.schedule.depthwise.kernel import BlockKernel
from collage_dsl.backends.schedule.depthwise.sizes import sizes_of
from collage_dsl.backends.schedule.depthwise.weights import packed, packing
from collage_dsl.backends.schedule.flatten import flattened
from collage_dsl.backends.schedule.groups import Inlined
from collage_dsl.backends.schedule.machine import machine_of
from collage_dsl.backends.schedule.masks import with_masks
from collage_dsl.backends.schedule.scheduled import Scheduled
from collage_dsl.backends.schedule.stack import on_stack


def depthwise(func: Any, target: Any) -> Scheduled:
    """`func`, which is one block, in one nest of loops."""
    program, block = block_of(func)
    machine = machine_of(target)
    sizes = sizes_of(block, machine)
    weights: dict[Part, Any] = {part: packed(part, sizes) for part in block.parts}
    context = Context(machine, Inlined({}), frozenset(program.parameters))
    computed = BlockKernel(sizes, weights, context).statement()
    taken = {part.weight: buffer for part, buffer in weights.items()}
    parameters = [taken.get(buffer, buffer) for buffer in program.parameters]
    flat, _ = flattened(computed, parameters, [])
    body = on_stack(with_masks(flat, (), machine), machine.lanes)
    root = s_tir.SBlock([], [], [], "root", body)
    whole = tirx.PrimFunc(
        parameters, s_tir.SBlockRealize([], True, root), func.ret_type, func.attrs
    )
    prepared = {
        program.parameters.index(part.weight): packing(part, sizes, weights[part])
        for part in block.parts
    }
    return Scheduled(whole, prepared)
