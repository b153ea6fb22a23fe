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
    choices,
    coefficients,
    constant,
    equal,
    integer,
    loads,
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
    used,
)
from collage_dsl.backends.schedule.machine import Machine
from collage_dsl.backends.schedule.masks import masked_load, may_mask, own_buffers, whole
from collage_dsl.backends.schedule.packing import conjuncts


def with_conditional_vectors(body: Stmt, allocated: Sequence[Buffer], machine: Machine) -> Stmt:
    """
    The body, whose accesses have one index each, with masks where a whole vector is read.
    `allocated` are the buffers that it takes from memory, besides those that it declares.
    """
    if not may_mask(machine):
        return body
    own = own_buffers(body, allocated)

    def changed(loop: Any) -> Stmt:
        if loop.kind != tirx.ForKind.VECTORIZED or constant(loop.extent) != machine.lanes:
            return loop
        reads = _Reads(loop.loop_var, machine.lanes, own, [], [])
        statement = tvm_ffi.structural_map(loop.body, (Call, _joined))
        conditional = {read for choice in choices(statement) for read in loads(choice)}
        inner = {
            each
            for choice in choices(statement)
            for branch in choice.args[1:]
            for each in choices(branch)
        }

        def strided(access: TensorLoad) -> Expr:
            return access if access in conditional else reads.strided(access)

        def masked(call: Call) -> Expr:
            return call if call in inner else reads.read(call)

        mapped = tvm_ffi.structural_map(statement, ((TensorLoad, strided), (Call, masked)))
        if not reads.buffers:
            return loop
        inside = tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, mapped)
        return scoped(reads.buffers, sequence([*reads.filled, inside]), "conditional")

    return tvm_ffi.structural_map(body, (tirx.For, changed))


def _joined(call: Call) -> Expr:
    """
    A choice with another one in it, as one choice, if both take the same number otherwise. A vector
    is read before the choice that it is for, so what is read in an inner one is not asked for by
    the outer one.
    """
    if not called(call, IF_THEN_ELSE) or not called(call.args[1], IF_THEN_ELSE):
        return call
    outer, (inner, value, other) = call.args[0], call.args[1].args
    if not equal(other, call.args[2]):
        return call
    return tirx.if_then_else(tirx.And(outer, inner), value, other)


@dataclass(frozen=True, slots=True, eq=False)
class _Reads:
    """Local `buffers` that are `filled` with what a loop over `lane` reads under conditions."""

    lane: tirx.Var
    lanes: int
    own: frozenset[Buffer]
    buffers: list[Any]
    filled: list[Stmt]

    def read(self, call: Call) -> Expr:
        if not called(call, IF_THEN_ELSE):
            return call
        condition, value, other = call.args
        if not isinstance(value, TensorLoad) or not isinstance(other, tirx.FloatImm):
            return call
        step = self._step(value)
        lanes = self._between(conjuncts(condition)) if step in (1, 2) else None
        return call if lanes is None else self._read(value, step, lanes, other)

    def strided(self, access: TensorLoad) -> Expr:
        """Every second element. TVM reads them one by one."""
        if self._step(access) != 2:
            return access
        first, count = substitute(access.indices[0], {self.lane: integer(0)}), self.lanes
        halves = [
            load(access.source, tirx.Ramp(first + start, integer(1), count))
            for start in (0, count - 1)  # the vectors share an element, to end with the last one
        ]
        places = [2 * lane + (2 * lane >= count) for lane in range(count)]
        return self._held(tirx.Shuffle(halves, places))

    def _step(self, access: TensorLoad) -> int:
        """How far apart in memory are what neighbouring lanes read; 0 for what has no masks."""
        source = access.source
        if len(access.indices) != 1 or source.scope() == "local":
            return 0
        if str(source.dtype) != "float32":
            return 0
        found = coefficients(access.indices[0], [self.lane])
        return 0 if found is None else found[0][0]

    def _read(self, value: TensorLoad, step: int, lanes: tuple[Expr, Expr], other: Expr) -> Expr:
        """A vector of the elements of some lanes, and `other` in the rest."""
        if value.source in self.own:
            self.filled.append(used(value.source))
        first = substitute(value.indices[0], {self.lane: integer(0)})
        start, stop = (step * lane for lane in lanes)

        def part(number: int) -> Expr:
            moved = number * self.lanes
            mask = self._mask(start - moved, stop - (step - 1) - moved)
            return masked_load(value.source, first + moved, mask, other, self.lanes)

        parts = list(map(part, range(step)))
        if step == 1:
            return self._held(parts[0])
        return self._held(tirx.Shuffle(parts, [2 * lane for lane in range(self.lanes)]))

    def _held(self, vector: Expr) -> Expr:
        """A lane of a vector, which gets a buffer."""
        buffer = scratch(self.lanes, "float32", "part", "local")
        self.buffers.append(buffer)
        self.filled.append(store(buffer, vector, whole(self.lanes)))
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
