"""Schedule a function of unknown form: share its own loops among the cores, and vectorise."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import s_tir, tirx

from collage_dsl.backends.schedule.expressions import constant
from collage_dsl.backends.schedule.machine import Machine


def general(func: Any, machine: Machine) -> Any:
    """
    The function with the outer spatial loops of each block shared among the cores, and an
    innermost spatial loop in vectors. Other blocks are unchanged.
    """
    if not isinstance(func.body, s_tir.SBlockRealize):
        return func
    named = func.with_attr("global_symbol", "main")
    schedule = s_tir.Schedule(tvm.IRModule({"main": named}))
    for block in schedule.get_child_blocks(schedule.get_sblock(func.body.block.name_hint)):
        _start_apart(schedule, block)
        spatial = _spatial_loops(schedule, block)
        if spatial and not schedule.get_child_blocks(block):
            _shared_out(schedule, block, spatial, machine)
    result = schedule.mod["main"]
    original = (func.attrs or {}).get("global_symbol")
    return result.with_attr("global_symbol", original) if original else _unnamed(result)


def _unnamed(func: Any) -> Any:
    return func.without_attr("global_symbol")


def _start_apart(schedule: s_tir.Schedule, block: Any) -> None:
    """
    Initialise a reduction before its first loop of unknown extent: TVM does it in the first round,
    of which there is none if the extent is 0.
    """
    realize = _realize(schedule, block)
    reduced = {
        value
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        if axis.iter_type == tirx.IterVar.CommReduce
    }
    loops = [(loop, schedule.get(loop)) for loop in schedule.get_loops(block)]
    rounds = [(loop, node) for loop, node in loops if node.loop_var in reduced]
    if realize.block.init is not None and any(constant(node.extent) is None for _, node in rounds):
        schedule.decompose_reduction(block, rounds[0][0])


def _spatial_loops(schedule: s_tir.Schedule, block: Any) -> list[Any]:
    """The leading loops of a block that each run over exactly one spatial axis."""
    realize = _realize(schedule, block)
    kinds = {
        value: axis.iter_type
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        if isinstance(value, tirx.Var)
    }
    leading = []
    for loop in schedule.get_loops(block):
        node = schedule.get(loop)
        if kinds.get(node.loop_var) != tirx.IterVar.DataPar or constant(node.extent) is None:
            break
        leading.append(loop)
    return leading


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
