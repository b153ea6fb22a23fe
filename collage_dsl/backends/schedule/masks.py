"""
Read and write a vector that is not full with one masked instruction.

LLVM splits a vector of 14 elements into parts of eight, four and two, and joins them again. With
AVX-512 one instruction reads or writes the first 14 lanes of a vector of 16, and the arithmetic
runs on all 16. AVX2 has such instructions for elements of 32 bits. They write slowly, so they are
for vectors of unknown length only, whose elements would be computed one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
    address,
    load,
    scoped,
    scratch,
    sequence,
    store,
    used,
    vector,
)
from collage_dsl.backends.schedule.machine import Machine
from collage_dsl.backends.schedule.sizes import is_known, size_of
from collage_dsl.backends.schedule.stages import Axis, shape, within

FIRST_LLVM = 22  # the signatures of the masked intrinsics are those of this version

MASKED = {16: frozenset(("float32", "int32", "int8", "uint8")), 8: frozenset(("float32", "int32"))}
"""The dtypes of tensors that are accessed with masks, by the lanes of a vector."""


def with_masks(body: Stmt, allocated: Sequence[Buffer], machine: Machine) -> Stmt:
    """
    The body, whose accesses have one index each, with masks in loops of partial vectors.
    `allocated` are the buffers that it takes from memory, besides those that it declares.
    """
    if not may_mask(machine):
        return tvm_ffi.structural_map(body, (tirx.For, _in_turn))
    own = own_buffers(body, allocated)
    return tvm_ffi.structural_map(body, (tirx.For, partial(_masked, own, machine.lanes)))


def may_mask(machine: Machine) -> bool:
    return (
        machine.lanes in MASKED and tvm.get_global_func("target.llvm_version_major")() >= FIRST_LLVM
    )


def own_buffers(body: Stmt, allocated: Sequence[Buffer]) -> frozenset[Buffer]:
    """
    The buffers in memory that are no parameters of a function: those that its body declares, and
    the `allocated` ones.
    """
    blocks: list[Any] = []
    tvm_ffi.structural_walk(body, (s_tir.SBlock, blocks.append))
    declared = (buffer for block in blocks for buffer in block.alloc_buffers)
    return frozenset(each for each in (*declared, *allocated) if each.scope() != "local")


def _in_turn(loop: Any) -> Stmt:
    """A loop that is no vector if it has no known extent."""
    if loop.kind != tirx.ForKind.VECTORIZED or isinstance(loop.extent, tirx.IntImm):
        return loop
    return tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.SERIAL, loop.body)


def _masked(own: frozenset[Buffer], most: int, loop: Any) -> Stmt:
    """
    A loop with masks. If its extent is not known, which is less than `most`, it is no vector
    without masks.
    """
    if loop.kind != tirx.ForKind.VECTORIZED:
        return loop
    extent = size_of(loop.extent)
    body, lanes = loop.body, most
    if is_known(extent):
        if most < 16 or extent < 3 or not extent & (extent - 1):
            return loop
        lanes = 1 << extent.bit_length()
    else:
        body = _with_simple_indices(body, loop.loop_var, lanes)
    choice = _choice(body, loop.loop_var)
    if choice is not None:
        chosen, *ways = choice
        return tirx.IfThenElse(chosen, *(_masked(own, most, _around(loop, way)) for way in ways))
    stores = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    parts = [_store(each, loop.loop_var, integer(extent), lanes, MASKED[most]) for each in stores]
    if any(part is None for part in parts):
        return _in_turn(loop)
    return sequence([*(used(each) for each in _accessed(stores) if each in own), *parts])


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


def _accessed(stores: Sequence[Any]) -> Iterable[Buffer]:
    """The buffers that are written or read, each once."""
    written = [write.buffer for write in stores]
    read = [access.source for write in stores for access in loads(write.value)]
    return dict.fromkeys([*written, *read])


def _store(
    write: Any, lane: tirx.Var, count: Expr, lanes: int, dtypes: frozenset[str]
) -> Stmt | None:
    """A store of the first `count` lanes; None if it cannot be masked, as those of other dtypes."""
    if not isinstance(write, tirx.BufferStore) or len(write.indices) != 1:
        return None
    reads = [read for read in loads(write.value) if lane in variables(read)]
    if not _follows(write.indices[0], lane) or write.buffer.scope() == "local":
        return None
    if choices(write.value) or _may_trap(write.value):
        return None
    dtype = str(write.buffer.dtype)
    if not dtypes.issuperset({dtype, *(str(read.source.dtype) for read in reads)}):
        return None
    if not all(_maskable(read, lane, lanes) for read in reads):
        return None
    mask = tirx.Ramp(tirx.IntImm("int32", 0), tirx.IntImm("int32", 1), lanes) < tirx.Broadcast(
        count.astype("int32"), lanes
    )
    result = scratch(lanes, dtype, "result", "local")
    held, value, filled = _held(write.value, lane, lanes, mask)
    compute = vector(lanes, lambda v: store(result, substitute(value, {lane: v}), v))
    put = _call(
        "void",
        "llvm.masked.store",
        load(result, whole(lanes)),
        address(write.buffer, substitute(write.indices[0], {lane: integer(0)})),
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
        dtype = str(access.source.dtype)
        buffer = scratch(lanes, dtype, "part", "local")
        first = substitute(access.indices[0], {lane: integer(0)})
        got = masked_load(access.source, first, mask, tirx.const(0, dtype), lanes)
        buffers.append(buffer)
        filled.append(store(buffer, got, whole(lanes)))
        return load(buffer, lane)

    return buffers, replace_loads(value, read), filled


def masked_load(buffer: Buffer, first: Expr, mask: Expr, other: Expr, lanes: int) -> Expr:
    """The elements from `first` on, as many as there are `lanes`; `other` where `mask` is false."""
    others = tirx.Broadcast(other, lanes)
    dtype = f"{buffer.dtype}x{lanes}"
    return _call(dtype, "llvm.masked.load", address(buffer, first), mask, others)


def _maskable(read: TensorLoad, lane: tirx.Var, lanes: int) -> bool:
    """
    Whether a vector is read from consecutive elements. A buffer of registers is read in whole
    vectors, of which it has to consist.
    """
    source = read.source
    if len(read.indices) != 1 or not _follows(read.indices[0], lane):
        return False
    return source.scope() != "local" or not shape(source)[0] % lanes


def _may_trap(value: Expr) -> bool:
    """Whether a value divides integers by what is read, which is 0 in the lanes that are masked."""
    found: list[Any] = []
    tvm_ffi.structural_walk(
        value, ((tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod), found.append)
    )
    return any("int" in str(each.ty.dtype) and loads(each.b) for each in found)


def _follows(index: Expr, lane: tirx.Var) -> bool:
    split = coefficients(index, [lane])
    return split is not None and split[0] == [1]


def whole(lanes: int) -> Expr:
    """The index of all elements of a buffer of so many."""
    return tirx.Ramp(integer(0), integer(1), lanes)


_call: Callable[..., Expr] = tirx.call_llvm_intrin
