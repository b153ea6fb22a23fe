"""Schedule a function of unknown form: share its own loops among the cores, and vectorise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from collage_dsl.backends.schedule.expressions import constant
from collage_dsl.backends.schedule.machine import Machine

_REDUCES = tirx.IterVar.CommReduce


def general(func: Any, machine: Machine) -> Any:
    """
    The function with the outer spatial loops of each block shared among the cores, and an
    innermost spatial loop in vectors. Other blocks are unchanged.
    """

    def share(schedule: s_tir.Schedule, block: Any) -> None:
        spatial = _spatial_loops(schedule, block)
        if spatial and not schedule.get_child_blocks(block):
            _shared_out(schedule, block, spatial, machine)

    return _reading_whole(_for_each_block(with_starts(func), share))


def _reading_whole(func: Any) -> Any:
    """
    The function whose blocks say that they read whole buffers where extents are not known. TVM
    keeps of a buffer only what is read; where a reshape joins such axes, it takes bounds that have
    variables of the loops from outside of them, and makes no code.
    """
    return func.with_body(tvm_ffi.structural_map(func.body, (s_tir.SBlock, _block_reading_whole)))


def _block_reading_whole(block: Any) -> Any:
    places = [
        place
        for place, region in enumerate(block.reads)
        if any(constant(extent) is None for extent in region.source.shape)
    ]
    if not places:
        return block
    reads = list(block.reads)
    for place in places:
        source = reads[place].source
        whole = [tvm.ir.Range(tirx.const(0, extent.ty), extent) for extent in source.shape]
        reads[place] = tvm.ir.TensorRegion(source, whole, reads[place].ty)
    return s_tir.SBlock(
        block.iter_vars,
        reads,
        block.writes,
        block.name_hint,
        block.body,
        block.init,
        block.alloc_buffers,
        block.match_buffers,
        {**block.annotations, _READS: places},
    )


_READS = "explicit_read_region"
"""TVM's name for the places of those regions of a block that are as it says."""


def with_starts(func: Any) -> Any:
    """
    The function with the start of each reduction before its loops, not in their first iteration:
    TVM has none for a reduction over no elements, and leaves the result as the memory was.
    """
    return _for_each_block(func, _start_first)


def _start_first(schedule: s_tir.Schedule, block: Any) -> None:
    if schedule.get(block).init is None:
        return
    kinds = _kinds_of_loops(schedule, block)
    loops = schedule.get_loops(block)
    reduced = [each for each in loops if kinds.get(_variable(schedule, each)) == _REDUCES]
    if any(not constant(schedule.get(each).extent) for each in reduced):
        schedule.decompose_reduction(block, reduced[0])


def _for_each_block(func: Any, change: Callable[[s_tir.Schedule, Any], None]) -> Any:
    if not isinstance(func.body, s_tir.SBlockRealize):
        return func
    named = func.with_attr("global_symbol", "main")
    schedule = s_tir.Schedule(tvm.IRModule({"main": named}))
    for block in schedule.get_child_blocks(schedule.get_sblock(func.body.block.name_hint)):
        change(schedule, block)
    result = schedule.mod["main"]
    original = (func.attrs or {}).get("global_symbol")
    return result.with_attr("global_symbol", original) if original else _unnamed(result)


def _unnamed(func: Any) -> Any:
    return func.without_attr("global_symbol")


def _spatial_loops(schedule: s_tir.Schedule, block: Any) -> list[Any]:
    """The leading loops of a block that each run over exactly one spatial axis."""
    kinds = _kinds_of_loops(schedule, block)
    leading = []
    for loop in schedule.get_loops(block):
        is_spatial = kinds.get(_variable(schedule, loop)) == tirx.IterVar.DataPar
        if not is_spatial or constant(schedule.get(loop).extent) is None:
            break
        leading.append(loop)
    return leading


def _kinds_of_loops(schedule: s_tir.Schedule, block: Any) -> dict[Any, int]:
    """The kind of each axis that one loop runs over, by the variable of the loop."""
    realize = _realize(schedule, block)
    return {
        value: axis.iter_type
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        if isinstance(value, tirx.Var)
    }


def _variable(schedule: s_tir.Schedule, loop: Any) -> Any:
    return schedule.get(loop).loop_var


def _realize(schedule: s_tir.Schedule, block: Any) -> Any:
    loops = schedule.get_loops(block)
    body = schedule.get(loops[-1]).body if loops else None
    if isinstance(body, s_tir.SBlockRealize):
        return body
    return s_tir.SBlockRealize([], True, s_tir.SBlock([], [], [], "none", tirx.Evaluate(0)))


def _shared_out(schedule: s_tir.Schedule, block: Any, spatial: list[Any], machine: Machine) -> None:
    loops = schedule.get_loops(block)
    inner = spatial.pop() if len(spatial) == len(loops) else None
    if inner is not None:
        extent = constant(schedule.get(inner).extent) or 0
        if extent % machine.lanes == 0:
            outer, inner = schedule.split(inner, [None, machine.lanes])
            spatial.append(outer)
            _attempt(schedule.vectorize, inner)
    if spatial and machine.cores > 1:
        _attempt(schedule.parallel, schedule.fuse(*spatial))


def _attempt(primitive: Any, loop: Any) -> None:
    """Apply a primitive if TVM's dependence analysis allows it, which only trying can tell."""
    try:
        primitive(loop)
    except s_tir.ScheduleError:
        return
