"""
Keep sums in registers: put local buffers on the stack, where LLVM replaces them by registers.

TVM 0.27 takes a buffer from the heap, unless it is global and smaller than 1 KiB. LLVM cannot tell
memory from the heap from that of other buffers. So in a loop that prefetches, and that several
cores share, it writes every sum to memory in each step.

Each vector gets a buffer of its own, because TVM may join a global buffer to another that is up to
16 times as large.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import TensorLoad, Var
from tvm.tirx import ForKind

from collage_dsl.backends.schedule.expressions import (
    Buffer,
    Expr,
    integer,
    substitute,
    variables,
)
from collage_dsl.backends.schedule.loops import Stmt, load, scratch, sequence, store
from collage_dsl.backends.schedule.stages import shape

STACK_BYTES = 1024
"""TVM puts global buffers of fewer bytes on the stack."""


def on_stack(body: Stmt, lanes: int) -> Stmt:
    """
    The body, whose accesses have one index each, with global buffers in place of local ones: one
    for each vector of `lanes` elements. Where an access is not known to be inside one vector, a
    small buffer becomes a global one as a whole, and a large one stays as it is.
    """
    local = _local(body)
    if not local:
        return body
    opened = tvm_ffi.structural_map(body, (tirx.For, partial(_opened, local)))
    moved = _Moved(opened, local, lanes)
    if not moved.parts:
        return body
    return tvm_ffi.structural_map(
        opened,
        (
            (TensorLoad, moved.loaded),
            (tirx.BufferStore, moved.stored),
            (s_tir.SBlock, moved.declared),
        ),
    )


def _local(body: Stmt) -> frozenset[Buffer]:
    blocks = _found(body, s_tir.SBlock)
    buffers = (buffer for block in blocks for buffer in block.alloc_buffers)
    return frozenset(buffer for buffer in buffers if buffer.scope() == "local")


def _bytes(buffer: Buffer) -> int:
    return shape(buffer)[0] * int(tvm_ffi.dtype(str(buffer.dtype)).itemsize)


def _found(body: Stmt, *kinds: Any) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(body, (kinds, found.append))
    return found


def _buffer(access: Any) -> Buffer:
    return access.source if isinstance(access, TensorLoad) else access.buffer


def _opened(local: frozenset[Buffer], each: Any) -> Stmt:
    """
    A loop written out, if it is to be unrolled and its index says where a local buffer is accessed.
    One that declares buffers stays, since they must not be declared twice.
    """
    if each.kind != ForKind.UNROLLED:
        return each
    inside = _found(each.body, TensorLoad, tirx.BufferStore, s_tir.SBlock)
    if any(isinstance(statement, s_tir.SBlock) for statement in inside):
        return each
    indices = (access.indices[0] for access in inside if _buffer(access) in local)
    if not any(each.loop_var in variables(index) for index in indices):
        return each
    places = range(int(each.extent))
    return sequence([substitute(each.body, {each.loop_var: integer(at)}) for at in places])


class _Moved:
    """`parts` are the buffers that replace a local one in `body`: one, or one for each vector."""

    def __init__(self, body: Stmt, local: frozenset[Buffer], lanes: int) -> None:
        self.lanes = lanes
        loops = [each for each in _found(body, tirx.For) if each.kind == ForKind.VECTORIZED]
        self.extents = {each.loop_var: int(each.extent) for each in loops}
        accesses = [a for a in _found(body, TensorLoad, tirx.BufferStore) if _buffer(a) in local]
        self.whole = {_buffer(a) for a in accesses if self._place(a.indices[0]) is None}
        self.parts = {
            buffer: self._parts(buffer)
            for buffer in local
            if buffer not in self.whole or _bytes(buffer) < STACK_BYTES
        }

    def _parts(self, buffer: Buffer) -> list[Buffer]:
        dtype, (size,) = str(buffer.dtype), shape(buffer)
        if buffer in self.whole:
            return [scratch(size, dtype, buffer.name)]
        numbers = range(-(-size // self.lanes))
        return [scratch(self.lanes, dtype, f"{buffer.name}{number}") for number in numbers]

    def _place(self, index: Expr) -> tuple[int, Expr] | None:
        """The vector that an access is inside of, and its index there."""
        ramp = index if isinstance(index, tirx.Ramp) else None
        found = _linear(index if ramp is None else ramp.base)
        if found is None:
            return None
        first, lane, stride = found
        count = self.extents.get(lane, 1) if lane is not None else 1
        if ramp is not None:
            if lane is not None or not isinstance(ramp.stride, tirx.IntImm):
                return None
            count, stride = int(ramp.lanes), int(ramp.stride.value)
        elif lane is not None and lane not in self.extents:
            return None
        if stride != 1 or first % self.lanes + count > self.lanes:
            return None
        number, start = divmod(first, self.lanes)
        if ramp is not None:
            return number, tirx.Ramp(integer(start), integer(1), count)
        return number, integer(start) if lane is None else lane + start

    def loaded(self, access: TensorLoad) -> Expr:
        found = self._new_place(access)
        return load(*found) if found else access

    def stored(self, access: Any) -> Stmt:
        found = self._new_place(access)
        return store(found[0], access.value, found[1]) if found else access

    def _new_place(self, access: Any) -> tuple[Buffer, Expr] | None:
        buffer = _buffer(access)
        if buffer not in self.parts:
            return None
        index = access.indices[0]
        if buffer in self.whole:
            return self.parts[buffer][0], index
        found = self._place(index)
        assert found is not None
        return self.parts[buffer][found[0]], found[1]

    def declared(self, block: Any) -> Any:
        if self.parts.keys().isdisjoint(block.alloc_buffers):
            return block
        buffers = [p for each in block.alloc_buffers for p in self.parts.get(each, [each])]
        return s_tir.SBlock([], [], [], block.name_hint, block.body, alloc_buffers=buffers)


def _linear(index: Expr) -> tuple[int, Var | None, int] | None:
    """
    The numbers a and b and the variable x of an index a + b x; b is 1 and x None if it is a number.
    None if it has another form.
    """
    match index:
        case tirx.IntImm():
            return int(index.value), None, 1
        case Var():
            return 0, index, 1
        case tirx.Add() | tirx.Mul():
            one, other = _linear(index.a), _linear(index.b)
            if one is None or other is None:
                return None
            if one[1] is not None:
                one, other = other, one
            number, lane, _ = one
            if lane is not None:
                return None
            first, lane, stride = other
            if isinstance(index, tirx.Add):
                return number + first, lane, stride
            return number * first, lane, stride if lane is None else number * stride
        case _:
            return None
