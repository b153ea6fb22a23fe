"""
Schedule a function whose leading dimensions have no known size: one slice after the other.

A batch of images, or the tokens of several texts, are such dimensions. What a function computes of
one image or token does not depend on the others, so a loop runs a schedule for one of known size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import TensorLoad, Var
from tvm.tirx import ForKind

from collage_dsl.backends.schedule.expressions import (
    Buffer,
    Expr,
    constant,
    equal,
    integer,
    loads,
    replace_loads,
    substitute,
    variables,
)
from collage_dsl.backends.schedule.loops import Stmt, sequence
from collage_dsl.backends.schedule.scheduled import Scheduled, VariantError
from collage_dsl.backends.schedule.stages import Program, Stage, extents, read, shape, within

_PROBES = (1_000_003, 1_000_033, 1_000_037)
_OTHER_PROBES = (1_000_039, 1_000_081, 1_000_099)
"""Sizes for the unknown dimensions, which no other dimension has."""

_TOGETHER = 16
"""So many slices are scheduled together, where each alone would read all weights for itself."""

_REUSED = 16
"""Weights that one slice uses so many times, as a convolution does, need no other slices."""

Schedule = Callable[[Any], Scheduled]


def sliced(func: Any, schedule: Schedule, cores: int) -> Scheduled | None:
    """
    The function in loops around what `schedule` makes of slices of known size. None if it has no
    dimension of unknown size, or one that does not lead, or if a slice depends on others. Raises
    `VariantError` if slices together would take other weights than one.
    """
    unknown = _unknown(func)
    if not unknown or len(unknown) > len(_PROBES):
        return None
    probe = read(_of_sizes(func, _PROBES[: len(unknown)]))
    other = read(_of_sizes(func, _OTHER_PROBES[: len(unknown)]))
    if probe is None or other is None or not _are_alike(probe, other):
        return None
    if not all(_is_independent(stage, len(unknown)) for stage in probe.stages):
        return None
    one = read(_of_sizes(func, [1] * len(unknown)))
    if one is None or any(0 in shape(buffer) for buffer in one.parameters):
        return None
    sizes = (_TOGETHER, 1) if _reads_weights(probe, len(unknown)) else (1,)
    return _Slices(func, unknown, cores).scheduled(schedule, sizes)


def _unknown(func: Any) -> tuple[Var, ...]:
    """The unknown dimensions with which buffers begin; none if they have others."""
    found: tuple[Var, ...] = ()
    for buffer in func.params:
        if not tirx.buffer.is_buffer_var(buffer):
            return ()
        count = sum(constant(extent) is None for extent in buffer.shape)
        leading = tuple(buffer.shape[:count])
        if not all(isinstance(extent, Var) for extent in leading):
            return ()
        if count and found and not _same(leading, found):
            return ()
        found = found or leading
    return found if len({hash(each) for each in found}) == len(found) else ()


def _same(some: Sequence[Var], others: Sequence[Var]) -> bool:
    return len(some) == len(others) and all(a.same_as(b) for a, b in zip(some, others, strict=True))


def _is_sliced(buffer: Buffer) -> bool:
    return any(constant(extent) is None for extent in buffer.shape)


def _of_sizes(func: Any, sizes: Sequence[int]) -> Any:
    """The function for these sizes of the unknown dimensions."""
    given = {}
    for buffer in func.params:
        if _is_sliced(buffer):
            dims = [*map(integer, sizes), *buffer.shape[len(sizes) :]]
            given[buffer] = tirx.decl_buffer(dims, buffer.dtype, buffer.name)
    return func.specialize(given)


def _are_alike(one: Program, other: Program) -> bool:
    """Whether two programs of different sizes compute the same, but for the number of slices."""
    if len(one.stages) != len(other.stages):
        return False
    for stage, twin in zip(one.stages, other.stages, strict=True):
        axes, others = ((*each.spatial, *each.reduced) for each in (stage, twin))
        shared = [tirx.Var(f"axis{number}", "int64") for number in range(len(axes))]
        if len(axes) != len(others):
            return False
        for axis, its in zip(axes, others, strict=True):
            if axis.extent != its.extent and axis.extent not in _PROBES:
                return False
        parts, twins = (list(_parts_of(each, shared)) for each in (stage, twin))
        if len(parts) != len(twins) or not all(map(equal, parts, twins)):
            return False
    return True


def _parts_of(stage: Stage, shared: Sequence[Var]) -> Iterator[Expr]:
    """The simplified indices of what a stage reads, and its value without them, over other axes."""
    axes = [axis.var for axis in (*stage.spatial, *stage.reduced)]
    where = dict(zip(axes, shared, strict=True))
    analyzer = within((*stage.spatial, *stage.reduced))
    for each in loads(stage.value):
        yield from (substitute(analyzer.simplify(index), where) for index in each.indices)
    yield substitute(_without_loads(stage.value), where)
    if stage.init is not None:
        yield substitute(stage.init, where)


def _without_loads(value: Expr) -> Expr:
    return replace_loads(value, lambda each: tirx.const(0, each.ty.dtype))


def _is_independent(stage: Stage, count: int) -> bool:
    """
    Whether a stage, of sizes that are probes, computes each slice from the same of others; or from
    weights what all slices need.
    """
    reads = loads(stage.value)
    if not _is_probe(stage.buffer, count):
        return stage.pointwise and not any(_is_probe(each.source, count) for each in reads)
    leading = [axis.var for axis in stage.spatial[:count]]
    if any(extent in _PROBES for extent in extents((*stage.spatial[count:], *stage.reduced))):
        return False
    analyzer = within((*stage.spatial, *stage.reduced))
    for each in reads:
        index = list(map(analyzer.simplify, each.indices))
        if _is_probe(each.source, count):
            if not all(var.same_as(part) for var, part in zip(leading, index, strict=False)):
                return False
            index = index[count:]
        if any(variables(part) & set(leading) for part in index):
            return False
    return not variables(_without_loads(stage.value)) & set(leading)


def _is_probe(buffer: Buffer, count: int) -> bool:
    return shape(buffer)[:count] == _PROBES[:count]


def _reads_weights(probe: Program, count: int) -> bool:
    """Whether a slice uses each of some weights only a few times, as a row of a product does."""
    for stage in probe.stages:
        work = prod(extents((*stage.spatial[count:], *stage.reduced)))
        for each in loads(stage.value) if stage.reduced else ():
            if not _is_probe(each.source, count) and work < _REUSED * prod(shape(each.source)):
                return True
    return False


@dataclass(frozen=True, slots=True, eq=False)
class _Slices:
    """A function whose buffers begin with the dimensions `unknown`, or have none of them."""

    function: Any
    unknown: tuple[Var, ...]
    cores: int

    def scheduled(self, schedule: Schedule, sizes: Sequence[int]) -> Scheduled:
        """The function in loops over so many slices together, and over the rest of them."""
        every = [schedule(_of_sizes(self.function, self._ones(size))) for size in sizes]
        if not all(_prepare_alike(every[0], each) for each in every[1:]):
            raise VariantError("prepares weights for a known number of rows")
        made = [each.function for each in every]
        params = [
            mine if _is_sliced(mine) else theirs
            for mine, theirs in zip(self.function.params, made[0].params, strict=True)
        ]
        loops = [
            self._loop(each, params, size, start, stop)
            for each, (size, start, stop) in zip(made, self._parts(sizes), strict=True)
        ]
        root = s_tir.SBlock([], [], [], "root", sequence(loops))
        body = s_tir.SBlockRealize([], True, root)
        return Scheduled(tirx.PrimFunc(params, body, attrs=made[0].attrs), every[0].prepared)

    def _ones(self, last: int) -> list[int]:
        return [*([1] * (len(self.unknown) - 1)), last]

    def _parts(self, sizes: Sequence[int]) -> Iterator[tuple[int, Expr, Expr]]:
        """For each of the sizes, the first slice along the last dimension, and the end."""
        start: Expr = integer(0)
        for size in sizes:
            stop = tirx.floordiv(self.unknown[-1], integer(size)) * size
            yield size, start, stop
            start = stop

    def _loop(
        self, made: Any, params: Sequence[Buffer], size: int, start: Expr, stop: Expr
    ) -> Stmt:
        """A loop of `made` on so many slices at a time."""
        at = [tirx.Var("slice", "int64") for _ in self.unknown]
        place: Expr = integer(0)
        for var, extent in zip(at, [*self.unknown[:-1], None], strict=True):
            position = var if extent is not None else start + var * size
            place = place * (extent if extent is not None else self.unknown[-1]) + position
        pairs = zip(made.params, params, strict=True)
        moved = {theirs: mine for theirs, mine in pairs if not theirs.same_as(mine)}
        body = _moved(made.body, moved, place, len(self.unknown))
        counts = [*self.unknown[:-1], tirx.floordiv(stop - start, integer(size))]
        shares = self.cores > 1 and not _is_shared(body)
        for number, (var, extent) in reversed(list(enumerate(zip(at, counts, strict=True)))):
            kind = ForKind.PARALLEL if shares and number == 0 else ForKind.SERIAL
            body = tirx.For(var, integer(0), extent, kind, body)
        return body


def _prepare_alike(one: Scheduled, other: Scheduled) -> bool:
    """Whether two functions take the same weights in the same form."""
    if one.prepared.keys() != other.prepared.keys():
        return False
    pairs = ((made, other.prepared[at]) for at, made in one.prepared.items())
    return all(tvm_ffi.structural_equal(*pair, map_free_vars=True) for pair in pairs)


def _is_shared(body: Stmt) -> bool:
    """Whether a body shares loops among the cores."""
    found: list[Any] = []
    tvm_ffi.structural_walk(body, (tirx.For, found.append))
    return any(each.kind == ForKind.PARALLEL for each in found)


def _moved(body: Stmt, buffers: Mapping[Buffer, Buffer], place: Expr, count: int) -> Stmt:
    """
    `body`, which reads and writes the first slices of some buffers, for the slices from `place` on
    of those that they stand for, and weights where they begin. It has a flat view of each buffer
    that has several dimensions.
    """
    begins = {mine: place if _is_sliced(mine) else integer(0) for mine in buffers.values()}
    flat = {theirs: mine for theirs, mine in buffers.items() if len(theirs.shape) == 1}
    starts = {theirs: begins[mine] for theirs, mine in flat.items()}
    declared: list[Any] = []
    tvm_ffi.structural_walk(body, (tirx.DeclBuffer, declared.append))
    own: dict[Any, Any] = {}
    for each in declared:
        for theirs, mine in buffers.items():
            if equal(each.data, tirx.buffer.buffer_data(theirs)):
                view, size = each.buffer, prod(mine.shape[count:], start=integer(1))
                whole = prod(mine.shape[:count], start=size)
                flat[view] = tirx.decl_buffer((whole,), view.dtype, view.name)
                starts[view] = begins[mine] * size
                own[each] = tirx.DeclBuffer(flat[view], data=tirx.buffer.buffer_data(mine))

    def moved(buffer: Buffer, index: Expr) -> Expr:
        if isinstance(index, tirx.Ramp):
            return tirx.Ramp(index.base + starts[buffer], index.stride, index.lanes)
        return index + starts[buffer]

    def loaded(access: TensorLoad) -> Expr:
        if access.source not in flat:
            return access
        (index,) = access.indices
        return tirx.BufferLoad(flat[access.source], [moved(access.source, index)])

    def stored(access: Any) -> Stmt:
        if access.buffer not in flat:
            return access
        (index,) = access.indices
        return tirx.BufferStore(flat[access.buffer], access.value, [moved(access.buffer, index)])

    return tvm_ffi.structural_map(
        body,
        (
            (TensorLoad, loaded),
            (tirx.BufferStore, stored),
            (tirx.DeclBuffer, lambda each: own.get(each, each)),
        ),
    )
