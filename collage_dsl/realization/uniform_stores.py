"""Make vector loops that store one bfloat16 in all lanes usual ones: TVM 0.27 cannot lower them."""

from collections.abc import Iterator
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx

from collage_dsl.backends.schedule.expressions import IF_THEN_ELSE, called, variables

Expr = Any


def without_uniform_stores(function: Any) -> Any:
    """
    `function`, scheduled, in which a loop over a vector that stores the same bfloat16 in all lanes
    is a usual loop. TVM makes vectors of such numbers, and forgets them where it replaces bfloat16
    by integers. LLVM makes vectors of these loops where it can.
    """

    def usual(loop: Any) -> Any:
        if loop.kind != tirx.ForKind.VECTORIZED or not _stores_uniform(loop):
            return loop
        return tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.SERIAL, loop.body)

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, usual)))


def _stores_uniform(loop: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(loop.body, (tirx.BufferStore, found.append))
    stores = [each for each in found if str(each.value.ty.dtype) == "bfloat16"]
    varying = _varying(loop) if stores else set()
    return any(
        not variables(_without_quotients(value)) & varying
        for store in stores
        for value in _stored(store.value)
    )


def _without_quotients(value: Expr) -> Expr:
    """`value` without divisions of integers, which may give the same in all lanes."""

    def zero(division: Any) -> Expr:
        dtype = str(division.ty.dtype)
        return tirx.const(0, dtype) if "int" in dtype else division

    return tvm_ffi.structural_map(value, ((tirx.FloorDiv, tirx.Div), zero))


def _varying(loop: Any) -> set[Any]:
    """The variable of a loop, and those of blocks inside that follow from it."""
    blocks: list[Any] = []
    tvm_ffi.structural_walk(loop.body, (s_tir.SBlockRealize, blocks.append))
    bound = [
        (axis.var, variables(value))
        for each in blocks
        for axis, value in zip(each.block.iter_vars, each.iter_values, strict=True)
    ]
    found, before = {loop.loop_var}, 0
    while len(found) > before:
        before = len(found)
        found |= {var for var, inside in bound if inside & found}
    return found


def _stored(value: Expr) -> Iterator[Expr]:
    """The values of which a store chooses one."""
    if isinstance(value, tirx.Select):
        choices = [value.true_value, value.false_value]
    elif called(value, IF_THEN_ELSE):
        choices = list(value.args[1:])
    else:
        yield value
        return
    for choice in choices:
        yield from _stored(choice)
