"""
Read vectors of which only some elements exist, as those at the edge of an image, with masks.

TVM reads a vector element by element if it has a condition. Where the elements that fulfil it are
next to each other, one masked instruction of AVX-512 reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, TensorLoad

from collage_dsl.backends.schedule.expressions import (
    IF_THEN_ELSE,
    Buffer,
    Expr,
    called,
    coefficients,
    constant,
    integer,
    substitute,
    variables,
)
from collage_dsl.backends.schedule.loops import Stmt, load, scoped, scratch, sequence, store
from collage_dsl.backends.schedule.machine import Machine
from collage_dsl.backends.schedule.masks import masked_load, may_mask, moved_buffers
from collage_dsl.backends.schedule.packing import conjuncts


def with_conditional_vectors(body: Stmt, allocated: Sequence[Buffer], machine: Machine) -> Stmt:
    """
    The body, whose accesses have one index each, with masks where a whole vector is read.
    `allocated` are the buffers that it takes from memory, besides those that it declares.
    """
    if not may_mask(machine):
        return body
    moved = moved_buffers(body, allocated)

    def changed(loop: Any) -> Stmt:
        if loop.kind != tirx.ForKind.VECTORIZED or constant(loop.extent) != machine.lanes:
            return loop
        reads = _Reads(loop.loop_var, machine.lanes, moved, [], [])
        mapped = tvm_ffi.structural_map(loop.body, (Call, reads.read))
        if not reads.buffers:
            return loop
        inside = tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, mapped)
        return scoped(reads.buffers, sequence([*reads.filled, inside]), "conditional")

    return tvm_ffi.structural_map(body, (tirx.For, changed))


@dataclass(frozen=True, slots=True, eq=False)
class _Reads:
    """Local `buffers` that are `filled` with what a loop over `lane` reads under conditions."""

    lane: tirx.Var
    lanes: int
    moved: frozenset[Buffer]
    buffers: list[Any]
    filled: list[Stmt]

    def read(self, call: Call) -> Expr:
        if not called(call, IF_THEN_ELSE):
            return call
        condition, value, other = call.args
        if not isinstance(value, TensorLoad) or value.source in self.moved:
            return call
        if str(value.source.dtype) != "float32" or not isinstance(other, tirx.FloatImm):
            return call
        found = coefficients(value.indices[0], [self.lane])
        step = found[0][0] if found is not None else 0
        lanes = self._between(conjuncts(condition)) if step in (1, 2) else None
        if lanes is None:
            return call
        first = substitute(value.indices[0], {self.lane: integer(0)})
        start, stop = (step * lane for lane in lanes)

        def part(number: int) -> Expr:
            moved = number * self.lanes
            mask = self._mask(start - moved, stop - (step - 1) - moved)
            return masked_load(value.source, first + moved, mask, other, self.lanes)

        parts = list(map(part, range(step)))
        buffer = scratch(self.lanes, "float32", "part", "local")
        self.buffers.append(buffer)
        got = parts[0]
        if step == 2:
            got = tirx.Shuffle(parts, [2 * lane for lane in range(self.lanes)])
        whole = tirx.Ramp(integer(0), integer(1), self.lanes)
        self.filled.append(store(buffer, got, whole))
        return load(buffer, self.lane)

    def _between(self, conditions: Sequence[Expr]) -> tuple[Expr, Expr] | None:
        """
        The first lane that fulfils the conditions, and the one after the last; none does where a
        condition about the whole vector is false. None if they have another form.
        """
        start, stop = integer(0), integer(self.lanes)
        for condition in conditions:
            if self.lane not in variables(condition):
                stop = tirx.Select(condition, stop, integer(0))
                continue
            if not isinstance(condition, (tirx.LT, tirx.LE)):
                return None
            found = coefficients(condition.b - condition.a, [self.lane])
            if found is None or found[0] == [0]:
                return None
            (factor,), rest = found
            more = rest - int(isinstance(condition, tirx.LT))  # + factor * lane has to be >= 0
            if factor > 0:
                start = tirx.max(start, -tirx.floordiv(more, integer(factor)))
            else:
                stop = tirx.min(stop, tirx.floordiv(more, integer(-factor)) + 1)
        return start, stop

    def _mask(self, start: Expr, stop: Expr) -> Expr:
        """The lanes from `start` on, up to `stop`, either of which may be beyond the vector."""
        lane = tirx.Ramp(tirx.IntImm("int32", 0), tirx.IntImm("int32", 1), self.lanes)

        def everywhere(limit: Expr) -> Expr:
            clipped = tirx.max(tirx.min(limit, integer(self.lanes)), integer(0))
            return tirx.Broadcast(clipped.astype("int32"), self.lanes)

        return tirx.And(everywhere(start) <= lane, lane < everywhere(stop))
