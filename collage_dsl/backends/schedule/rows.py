"""
Loops of reductions along memory, one row at a time: softmax, layer norm, mean, dot products.

All stages of a group run on a row before the next row begins, so that what one stage stores is
still in the first-level cache when the next stage reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, TensorLoad

from collage_dsl.backends.schedule.context import Context, spread
from collage_dsl.backends.schedule.expressions import (
    Buffer,
    Expr,
    called,
    equal,
    has_bfloat16,
    integer,
    loads,
    replace_loads,
    substitute,
)
from collage_dsl.backends.schedule.functions import exponential_of_difference, vectorisable
from collage_dsl.backends.schedule.groups import Group, in_order, wide, wide_extents
from collage_dsl.backends.schedule.loops import (
    Stmt,
    load,
    loop,
    parallel_nest,
    scoped,
    scratch,
    sequence,
    split_index,
    store,
    unrolled,
    vector,
    vectorised,
)
from collage_dsl.backends.schedule.stages import Axis, Stage

CHAINS = 4  # vectors summed at the same time, since an addition takes about four cycles


def rows_statement(group: Group, context: Context) -> Stmt:
    """The stages of a group on all rows, shared among the cores."""
    assert group.rows is not None
    outer, inner = group.rows
    kernel = RowKernel(group, context, inner)
    return parallel_nest(outer, context.machine.cores, kernel.row)


@dataclass(frozen=True, slots=True, eq=False)
class RowKernel:
    """The stages of a group on one row."""

    group: Group
    context: Context
    inner: tuple[int, ...]

    def row(self, at: list[Expr]) -> Stmt:
        local: dict[Buffer, Buffer] = {}
        parts = []
        before: Stage | None = None
        for stage, following in zip(self.group.stages, (*self.group.stages[1:], None), strict=True):
            joins = following is not None and self._joins(stage, following)
            if self._is_kept(stage) and (not joins or self._readers(stage) != [following]):
                local[stage.buffer] = self._memory(stage)
            if joins:
                before = stage
                continue
            parts.append(self._stage(stage, at, dict(local), before))
            before = None
        own = [memory for memory in local.values() if memory not in self.context.stored]
        return scoped(own, sequence(parts), "row")

    def _is_kept(self, stage: Stage) -> bool:
        """Whether what a stage computes is kept: for another stage of the row, or to be stored."""
        is_stored = stage.buffer in self.context.stored
        return bool(stage.reduced or self._readers(stage) or not is_stored)

    def _memory(self, stage: Stage) -> Buffer:
        """
        Where the values of a stage are kept for later stages: in the result, if the last stage
        overwrites them there. Then the cache lines of the result arrive while the stage computes.
        """
        if self._waits_in_result(stage):
            return self.group.stages[-1].buffer
        size = prod(self.inner) if self._is_whole(stage) else 1
        return scratch(size, stage.buffer.dtype, stage.buffer.name)

    def _waits_in_result(self, stage: Stage) -> bool:
        """
        Whether `stage` is the only one whose row is kept, and the last stage reads only what is
        computed in the row, and an element of `stage` only where it writes its own.
        """
        *before, last = self.group.stages
        stored, reads = self.context.stored, loads(self.context.inlined.expand(last.value))
        waiting = [each for each in before if self._is_whole(each) and each.buffer not in stored]
        return (
            waiting == [stage]
            and self._is_whole(last)
            and last.buffer in stored
            and str(last.buffer.dtype) == str(stage.buffer.dtype)
            and {read.source for read in reads} <= {each.buffer for each in before}
            and all(
                len(read.indices) == len(last.indices)
                and all(map(equal, read.indices, last.indices))
                for read in reads
                if read.source.same_as(stage.buffer)
            )
        )

    def _place(self, memory: Buffer, position: Expr, at: list[Expr]) -> list[Expr]:
        """The index of an element in the memory of a stage: of the result, or of one row."""
        return spread(memory, at) if memory in self.context.stored else [position]

    def _joins(self, stage: Stage, following: Stage) -> bool:
        """Whether a stage is computed in the loop of the reduction after it, which reads it."""
        if not self._is_whole(stage) or not following.reduced:
            return False
        if following not in self._readers(stage):
            return False
        return self._is_one_line(stage) and self._is_one_line(following)

    def _readers(self, stage: Stage) -> list[Stage]:
        """The stages of the row that read what a stage computes."""
        others = (other for other in self.group.stages if other is not stage)
        return [other for other in others if stage.buffer in self._reads(other)]

    def _is_whole(self, stage: Stage) -> bool:
        """Whether the stage has one value for each element of the row, not one for the row."""
        outer = self.group.rows[0] if self.group.rows else ()
        return not stage.reduced and len(wide(stage.spatial)) > len(outer)

    def _stage(
        self, stage: Stage, at: list[Expr], local: dict[Buffer, Buffer], before: Stage | None
    ) -> Stmt:
        if stage.reduced:
            return self._reduced(stage, at, local, before)
        if self._is_whole(stage):
            return self._each(stage, at, local)
        value = self._value(stage, at, [], local)
        return self._put(stage, value, at, integer(0), local)

    def _each(self, stage: Stage, at: list[Expr], local: dict[Buffer, Buffer]) -> Stmt:
        def element(position: Expr) -> Stmt:
            return self._element(stage, at, position, local)

        return self._line(stage, lambda start, count: _span(start, count, self.lanes, element))

    def _element(
        self, stage: Stage, at: list[Expr], position: Expr, local: dict[Buffer, Buffer]
    ) -> Stmt:
        index = split_index(position, self.inner)
        value = self._value(stage, at, index, local)
        return self._put(stage, value, [*at, *index], position, local)

    def _put(
        self, stage: Stage, value: Expr, at: list[Expr], position: Expr, local: dict[Buffer, Buffer]
    ) -> Stmt:
        """Keep a value for later stages of the row, and store it if another group reads it."""
        parts = []
        is_stored = stage.buffer in self.context.stored
        if stage.buffer in local:
            memory = local[stage.buffer]
            place = self._place(memory, position, at)
            parts.append(store(memory, value, *place))
            value = load(memory, *place)
        if is_stored:
            parts.append(store(stage.buffer, value, *spread(stage.buffer, at)))
        return sequence(parts)

    @property
    def lanes(self) -> int:
        return self.context.machine.lanes

    def _line(self, stage: Stage, body: Callable[[Expr, int], Stmt]) -> Stmt:
        """`body(start, count)` for each stretch of the row that is contiguous in memory."""
        if self._is_one_line(stage):
            return body(integer(0), prod(self.inner))
        last = self.inner[-1]
        return loop(prod(self.inner) // last, lambda line: body(line * last, last), name="line")

    def _is_one_line(self, stage: Stage) -> bool:
        """Whether all that a stage reads is contiguous along the whole row."""
        axes = wide(stage.reduced) or wide(stage.spatial)[-len(self.inner) :]
        value = self.context.inlined.expand(stage.value)
        inside = {member.buffer for member in self.group.stages}
        outside = [read for read in loads(value) if read.source not in inside]
        return all(in_order(read, axes) for read in outside)

    def _reduced(
        self, stage: Stage, at: list[Expr], local: dict[Buffer, Buffer], before: Stage | None
    ) -> Stmt:
        """
        Sum in several vectors, add these to one vector, and then add its lanes. The stage `before`
        is computed in the same loop.
        """
        lanes, result = self.lanes, local[stage.buffer]
        combine = self._combiner(stage)
        dtype = stage.buffer.dtype
        chains = scratch(CHAINS * lanes, dtype, "chains", "local")
        partial = scratch(lanes, dtype, "partial")

        def term(position: Expr) -> Expr:
            return self._value(stage, at, split_index(position, self.inner), local)

        def onto(buffer: Buffer, place: Expr, position: Expr) -> Stmt:
            added = combine(load(buffer, place), term(position))
            if before is None:
                return store(buffer, added, place)
            if before.buffer not in local and before.buffer not in self.context.stored:
                return store(buffer, self._with_named(before, at, position, local, added), place)
            return sequence(
                [self._element(before, at, position, local), store(buffer, added, place)]
            )

        def stretch(start: Expr, count: int) -> Stmt:
            return self._stretch(chains, partial, combine, (start, count), onto)

        begin = vector(lanes, lambda lane: store(partial, stage.init, lane))
        clear = unrolled(
            CHAINS, lambda j: vector(lanes, lambda v: store(chains, stage.init, j * lanes + v))
        )
        whole = self._line(stage, lambda start, count: sequence([clear, stretch(start, count)]))
        total = store(result, load(partial, integer(0)), integer(0))
        parts = [begin, whole, *_halves(partial, lanes, combine), total]
        if stage.buffer in self.context.stored:
            index = spread(stage.buffer, at)
            parts.append(store(stage.buffer, load(result, integer(0)), *index))
        return scoped([chains, partial], sequence(parts), "reduce")

    def _with_named(
        self,
        stage: Stage,
        at: list[Expr],
        position: Expr,
        local: dict[Buffer, Buffer],
        value: Expr,
    ) -> Expr:
        """`value`, in which a name stands for what `stage` computes at the same position."""
        computed = self._value(stage, at, split_index(position, self.inner), local)
        if has_bfloat16(computed):
            return replace_loads(value, lambda r: computed if r.source.same_as(stage.buffer) else r)
        name = tirx.Var("v", computed.ty.dtype)
        named = replace_loads(value, lambda r: name if r.source.same_as(stage.buffer) else r)
        return tirx.Let(name, computed, named)

    def _combiner(self, stage: Stage) -> Callable[[Expr, Expr], Expr]:
        """How the terms are combined. The maximum of a softmax need not keep NaN: its sum does."""
        if isinstance(stage.value, tirx.Max) and self._is_of_softmax(stage):
            return lambda a, b: tirx.Select(a > b, a, b)
        return type(stage.value)

    def _is_of_softmax(self, maximum: Stage) -> bool:
        """
        Whether all that is computed from `maximum` has NaN from a sum of exponentials, if one of
        the terms of the maximum is NaN.
        """
        terms = self._reads(maximum) - {maximum.buffer}
        before_sum, sums = {maximum.buffer}, set[Buffer]()
        for stage in self.group.stages:
            reads = self._reads(stage)
            if stage is maximum or reads & sums or not reads & before_sum:
                continue
            if not terms <= reads and not reads & (before_sum - {maximum.buffer}):
                return False
            if stage.buffer in self._exponential_sums:
                sums.add(stage.buffer)
            elif called(self.context.inlined.expand(stage.value), "tirx.exp"):
                before_sum.add(stage.buffer)
            else:
                return False
        return bool(sums) and not before_sum & self.context.stored

    def _reads(self, stage: Stage) -> set[Buffer]:
        return {read.source for read in loads(self.context.inlined.expand(stage.value))}

    def _stretch(
        self,
        chains: Buffer,
        partial: Buffer,
        combine: Callable[[Expr, Expr], Expr],
        stretch: tuple[Expr, int],
        onto: Callable[[Buffer, Expr, Expr], Stmt],
    ) -> Stmt:
        """Add one stretch of memory to `partial`: CHAINS vectors at once, then the rest."""
        lanes = self.lanes
        start, count = stretch
        blocks, rest = divmod(count, CHAINS * lanes)
        parts = []

        def block(number: Expr) -> Stmt:
            first = start + number * (CHAINS * lanes)
            return unrolled(
                CHAINS,
                lambda j: vector(
                    lanes, lambda v: onto(chains, j * lanes + v, first + j * lanes + v)
                ),
            )

        def merge(v: Expr) -> Stmt:
            value = load(partial, v)
            for chain in range(CHAINS):
                value = combine(value, load(chains, v + chain * lanes))
            return store(partial, value, v)

        if blocks:
            parts += [loop(blocks, block), vector(lanes, merge)]
        tail = start + blocks * CHAINS * lanes
        if rest:
            parts.append(
                _span(integer(0), rest, lanes, lambda p: onto(partial, p % lanes, tail + p))
            )
        return sequence(parts)

    def _value(
        self, stage: Stage, at: list[Expr], index: list[Expr], local: dict[Buffer, Buffer]
    ) -> Expr:
        """The value of a stage, or the term that a reduction adds, at one index."""
        expanded = self.context.inlined.expand(stage.value)
        axes = (*stage.spatial, *stage.reduced)
        term = expanded.b if stage.reduced else expanded
        places = iter([*at, *index])
        where = {axis.var: next(places) if axis.extent > 1 else integer(0) for axis in axes}

        def held(read: TensorLoad) -> Expr:
            if read.source not in local or read.source.same_as(stage.buffer):
                return read
            memory = local[read.source]
            position = self._position(read.source, index)
            return load(memory, *self._place(memory, position, [*at, *index]))

        value = self._with_reciprocals(self._with_differences(term, axes))
        value = substitute(value, where)
        return vectorisable(replace_loads(value, held))

    def _with_reciprocals(self, value: Expr) -> Expr:
        """
        `value` with products by a reciprocal, which is the same for the whole row, in place of
        quotients by a sum of exponentials. Such a sum is never so small that its reciprocal is
        infinite.
        """

        def rewritten(quotient: tirx.Div) -> Expr:
            divisor = quotient.b
            if not isinstance(divisor, TensorLoad) or divisor.source not in self._exponential_sums:
                return quotient
            return quotient.a * (tirx.FloatImm("float32", 1.0) / divisor)

        return tvm_ffi.structural_map(value, (tirx.Div, rewritten))

    def _with_differences(self, value: Expr, axes: Sequence[Axis]) -> Expr:
        """`value`, over `axes`, with simpler exponentials of differences to a row's maximum."""
        if has_bfloat16(value):
            return value
        maxima = {s.buffer: s for s in self.group.stages if isinstance(s.value, tirx.Max)}

        def is_difference(x: Expr) -> bool:
            if not isinstance(x, tirx.Sub) or not isinstance(x.b, TensorLoad):
                return False
            maximum = maxima.get(x.b.source)
            return maximum is not None and self._is_term(x.a, axes, maximum)

        def rewritten(call: Call) -> Expr:
            is_simpler = called(call, "tirx.exp") and str(call.ty.dtype) == "float32"
            if is_simpler and is_difference(call.args[0]):
                return exponential_of_difference(call.args[0])
            return call

        return tvm_ffi.structural_map(value, (Call, rewritten))

    def _is_term(self, value: Expr, axes: Sequence[Axis], maximum: Stage) -> bool:
        """Whether `value`, which is over `axes`, is one of the terms of `maximum`."""
        term = self.context.inlined.expand(maximum.value).b
        own = (*maximum.spatial, *maximum.reduced)
        if wide_extents(axes) != wide_extents(own):
            return False
        ones = {axis.var: integer(0) for axis in (*axes, *own) if axis.extent == 1}
        names = zip(wide(axes), wide(own), strict=True)
        same = {axis.var: other.var for axis, other in names}
        return equal(substitute(value, ones | same), substitute(term, ones))

    @property
    def _exponential_sums(self) -> set[Buffer]:
        """The stages that add exponentials along a row."""
        stages = {stage.buffer: stage for stage in self.group.stages}

        def is_exponential(value: Expr) -> bool:
            if isinstance(value, TensorLoad) and value.source in stages:
                value = stages[value.source].value
            return called(value, "tirx.exp")

        return {
            stage.buffer
            for stage in self.group.stages
            if stage.reduced
            and isinstance(stage.value, tirx.Add)
            and str(stage.buffer.dtype) == "float32"
            and is_exponential(self.context.inlined.expand(stage.value.b))
        }

    def _position(self, buffer: Buffer, index: list[Expr]) -> Expr:
        member = next(s for s in self.group.stages if s.buffer.same_as(buffer))
        if not self._is_whole(member):
            return integer(0)
        position: Expr = integer(0)
        for part, extent in zip(index, self.inner, strict=True):
            position = position * extent + part
        return position


def _span(start: Expr, count: int, lanes: int, body: Callable[[Expr], Stmt]) -> Stmt:
    return vectorised(count, lanes, lambda position: body(start + position))


def _halves(partial: Buffer, lanes: int, combine: Callable[[Expr, Expr], Expr]) -> list[Stmt]:
    """Combine the upper half of the lanes with the lower half until one lane remains."""
    parts = []
    half = lanes // 2
    while half:
        parts.append(_fold(partial, half, combine))
        half //= 2
    return parts


def _fold(partial: Buffer, half: int, combine: Callable[[Expr, Expr], Expr]) -> Stmt:
    def one(lane: Expr) -> Stmt:
        return store(partial, combine(load(partial, lane), load(partial, lane + half)), lane)

    return vector(half, one)
