"""
Read and write a vector that is not full with one masked instruction.

LLVM splits a vector of 14 elements into parts of eight, four and two, and joins them again. With
AVX-512 one instruction reads or writes the first 14 lanes of a vector of 16, and the arithmetic
runs on all 16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import TensorLoad

from collage_dsl.backends.schedule.expressions import (
    IF_THEN_ELSE,
    Buffer,
    Expr,
    called,
    choices,
    coefficients,
    integer,
    loads,
    replace_loads,
    substitute,
    variables,
)
from collage_dsl.backends.schedule.loops import (
    Stmt,
    load,
    scoped,
    scratch,
    sequence,
    store,
    vector,
)
from collage_dsl.backends.schedule.machine import Machine
from collage_dsl.backends.schedule.sizes import is_known, size_of
from collage_dsl.backends.schedule.stages import Axis, shape, within

FIRST_LLVM = 22  # the signatures of the masked intrinsics are those of this version


def with_masks(body: Stmt, allocated: Sequence[Buffer], machine: Machine) -> Stmt:
    """
    The body, whose accesses have one index each, with masks in loops of partial vectors.
    `allocated` are the buffers that it takes from memory, besides those that it declares.

    TVM may put a buffer where one of another dtype was, and then refuses pointers to it. So if the
    dtypes differ, only parameters are accessed with masks.
    """
    if not may_mask(machine):
        return tvm_ffi.structural_map(body, (tirx.For, _in_turn))
    moved = moved_buffers(body, allocated)
    return tvm_ffi.structural_map(body, (tirx.For, partial(_masked, moved, machine.lanes)))


def may_mask(machine: Machine) -> bool:
    return machine.lanes == 16 and tvm.get_global_func("target.llvm_version_major")() >= FIRST_LLVM


def moved_buffers(body: Stmt, allocated: Sequence[Buffer]) -> frozenset[Buffer]:
    """Those that are not accessed with masks, of buffers that a body declares or is given."""
    buffers = _declared(body) | frozenset(allocated)
    is_mixed = len({str(buffer.dtype) for buffer in buffers}) > 1
    return buffers if is_mixed else frozenset()


def _in_turn(loop: Any) -> Stmt:
    """A loop that is no vector if it has no known extent."""
    if loop.kind != tirx.ForKind.VECTORIZED or isinstance(loop.extent, tirx.IntImm):
        return loop
    return tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.SERIAL, loop.body)


def _declared(body: Stmt) -> frozenset[Buffer]:
    blocks: list[Any] = []
    tvm_ffi.structural_walk(body, (s_tir.SBlock, blocks.append))
    return frozenset(buffer for block in blocks for buffer in block.alloc_buffers)


def _masked(moved: frozenset[Buffer], most: int, loop: Any) -> Stmt:
    """
    A loop with masks, unless it accesses memory of `moved` buffers. If its extent is not known,
    which is less than `most`, it is no vector without masks.
    """
    if loop.kind != tirx.ForKind.VECTORIZED:
        return loop
    extent = size_of(loop.extent)
    body, lanes = loop.body, most
    if is_known(extent):
        if extent < 3 or not extent & (extent - 1):
            return loop
        lanes = 1 << extent.bit_length()
    else:
        body = _with_simple_indices(body, loop.loop_var, lanes)
    choice = _choice(body, loop.loop_var)
    if choice is not None:
        chosen, *ways = choice
        return tirx.IfThenElse(chosen, *(_masked(moved, most, _around(loop, way)) for way in ways))
    stores = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    if any(_accesses(each, moved) for each in stores):
        return _in_turn(loop)
    parts = [_store(each, loop.loop_var, integer(extent), lanes) for each in stores]
    return _in_turn(loop) if any(part is None for part in parts) else sequence(parts)


def _around(loop: Any, body: Stmt) -> Stmt:
    return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body)


def _choice(body: Stmt, lane: tirx.Var) -> tuple[Expr, Stmt, Stmt] | None:
    """A condition about all lanes, and what is stored if it is true, or false."""
    if not isinstance(body, tirx.BufferStore) or not called(body.value, IF_THEN_ELSE):
        return None
    condition, *values = body.value.args
    if lane in variables(condition):
        return None
    one, other = (store(body.buffer, value, *body.indices) for value in values)
    return condition, one, other


def _with_simple_indices(body: Stmt, lane: tirx.Var, lanes: int) -> Stmt:
    """The body with simplified indices, given the range of `lane`."""
    analyzer = within([Axis(lane, lanes)])

    def read(access: TensorLoad) -> Expr:
        return load(access.source, *map(analyzer.simplify, access.indices))

    def write(access: Any) -> Stmt:
        return store(access.buffer, access.value, *map(analyzer.simplify, access.indices))

    return tvm_ffi.structural_map(body, ((TensorLoad, read), (tirx.BufferStore, write)))


def _accesses(write: Any, moved: frozenset[Buffer]) -> bool:
    """Whether a store accesses `moved` buffers other than registers."""
    if not isinstance(write, tirx.BufferStore):
        return False
    accessed = {write.buffer, *(read.source for read in loads(write.value))}
    return any(buffer.scope() != "local" for buffer in accessed & moved)


def _store(write: Any, lane: tirx.Var, count: Expr, lanes: int) -> Stmt | None:
    """A store of the first `count` lanes; None if it cannot be masked."""
    if not isinstance(write, tirx.BufferStore) or len(write.indices) != 1:
        return None
    reads = [read for read in loads(write.value) if lane in variables(read)]
    if not _follows(write.indices[0], lane) or write.buffer.scope() == "local":
        return None
    if choices(write.value):
        return None
    if str(write.buffer.dtype) != "float32" or not all(_maskable(r, lane, lanes) for r in reads):
        return None
    mask = tirx.Ramp(tirx.IntImm("int32", 0), tirx.IntImm("int32", 1), lanes) < tirx.Broadcast(
        count.astype("int32"), lanes
    )
    result = scratch(lanes, "float32", "result", "local")
    held, value, filled = _held(write.value, lane, lanes, mask)
    compute = vector(lanes, lambda v: store(result, substitute(value, {lane: v}), v))
    put = _call(
        "void",
        "llvm.masked.store",
        load(result, whole(lanes)),
        write.buffer.access_ptr("w", offset=substitute(write.indices[0], {lane: integer(0)})),
        mask,
    )
    return scoped([*held, result], sequence([*filled, compute, tirx.Evaluate(put)]), "partial")


def _held(
    value: Expr, lane: tirx.Var, lanes: int, mask: Expr
) -> tuple[list[Any], Expr, list[Stmt]]:
    """Local buffers for what `value` reads along the lanes, the value from them, and reads."""
    buffers: list[Any] = []
    filled: list[Stmt] = []

    def read(access: TensorLoad) -> Expr:
        if lane not in variables(access) or access.source.scope() == "local":
            return access
        buffer = scratch(lanes, "float32", "part", "local")
        first = substitute(access.indices[0], {lane: integer(0)})
        got = masked_load(access.source, first, mask, tirx.FloatImm("float32", 0.0), lanes)
        buffers.append(buffer)
        filled.append(store(buffer, got, whole(lanes)))
        return load(buffer, lane)

    return buffers, replace_loads(value, read), filled


def masked_load(buffer: Buffer, first: Expr, mask: Expr, other: Expr, lanes: int) -> Expr:
    """The elements from `first` on, as many as there are `lanes`; `other` where `mask` is false."""
    where = buffer.access_ptr("r", offset=first)
    others = tirx.Broadcast(other, lanes)
    return _call(f"float32x{lanes}", "llvm.masked.load", where, mask, others)


def _maskable(read: TensorLoad, lane: tirx.Var, lanes: int) -> bool:
    """
    Whether a vector is read from consecutive elements. A buffer of registers is read in whole
    vectors, of which it has to consist.
    """
    source = read.source
    if len(read.indices) != 1 or not _follows(read.indices[0], lane):
        return False
    if source.scope() == "local" and shape(source)[0] % lanes:
        return False
    return str(source.dtype) == "float32"


def _follows(index: Expr, lane: tirx.Var) -> bool:
    split = coefficients(index, [lane])
    return split is not None and split[0] == [1]


def whole(lanes: int) -> Expr:
    """The index of all elements of a buffer of so many."""
    return tirx.Ramp(integer(0), integer(1), lanes)


_call: Callable[..., Expr] = tirx.call_llvm_intrin
