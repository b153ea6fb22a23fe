"""Copy the part of an operand that a tile slides over, with its padding, into a small buffer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import gcd

from tvm import tirx

from collage_dsl.backends.schedule.expressions import (
    IF_THEN_ELSE,
    Buffer,
    Expr,
    called,
    constant,
    integer,
    loads,
    variables,
)
from collage_dsl.backends.schedule.groups import Inlined, value_at
from collage_dsl.backends.schedule.loops import (
    Stmt,
    load,
    loop,
    scoped,
    scratch,
    sequence,
    store,
    unrolled,
    vector,
    vectorised,
)
from collage_dsl.backends.schedule.sizes import greatest, least, size_of
from collage_dsl.backends.schedule.stages import Axis, Stage, shape


@dataclass(frozen=True, slots=True)
class Window:
    """
    How an output axis slides over one dimension of an operand.

    Element `n` of the axis reads `base + stride * n + sum(dilation * tap)`.
    """

    axis: Axis
    dimension: int
    stride: int
    base: int
    taps: tuple[tuple[Axis, int], ...]

    @property
    def offsets(self) -> list[int]:
        """The distances from the first element that the taps reach, sorted."""
        ranges = [[d * t for t in range(axis.extent)] for axis, d in self.taps]
        return sorted({sum(choice) for choice in product(*ranges)})

    @property
    def unit(self) -> int:
        """The distance between neighbouring phases that are used."""
        return gcd(self.stride, *(dilation for _, dilation in self.taps))

    @property
    def phases(self) -> int:
        """
        The number of interleaved parts of the dimension that the taps read.

        With stride two, even and odd elements are packed separately, so that neighbours in the
        output read neighbours in the packed buffer.
        """
        return max(offset % self.stride for offset in self.offsets) // self.unit + 1

    @property
    def reach(self) -> int:
        """The number of packed elements that are read after the last output element."""
        return max(offset // self.stride for offset in self.offsets)

    def anywhere(self) -> Window:
        """The window for tiles that start at any row: its axis has no end that is known."""
        return replace(self, axis=replace(self.axis, extent=1 << 30))

    def phase_and_shift(self, taps: dict[tirx.Var, Expr]) -> tuple[Expr, Expr]:
        """The phase of a tap and its shift in the packed buffer."""
        offset: Expr = integer(0)
        for axis, dilation in self.taps:
            offset = offset + taps[axis.var] * dilation
        if self.stride == 1:
            return integer(0), offset
        phase = tirx.floordiv(tirx.floormod(offset, self.stride), self.unit)
        return phase, tirx.floordiv(offset, self.stride)


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """
    The values of an operand: `value(indices)` within the bounds and `fill` outside.

    For a padded tensor, the bounds are those of its inner part; for others, its shape.
    """

    value: Callable[[Sequence[Expr]], Expr]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    fill: Expr


def source_of(buffer: Buffer, inlined: Inlined, slid: Collection[int]) -> Source:
    """
    The source behind a buffer that is either in memory or inlined.

    Its bounds are about padding in the dimensions that are `slid` over. Padding in any other
    dimension is checked in the value.
    """
    stage = inlined.stages.get(buffer)
    zero = tirx.const(0, buffer.dtype)
    extents = shape(buffer)
    if stage is None:
        return Source(lambda at: load(buffer, *at), (0,) * len(extents), extents, zero)
    padded = _padded(stage, extents, slid)
    if padded is None:
        at_index = _evaluator(stage, stage.value, inlined)
        return Source(at_index, (0,) * len(extents), extents, zero)
    lower, upper, inner, fill = padded
    value = _evaluator(stage, inner, inlined)
    checked = [
        (d, lower[d], upper[d])
        for d, extent in enumerate(extents)
        if d not in slid and (lower[d] > 0 or upper[d] < extent)
    ]

    def guarded(at: Sequence[Expr]) -> Expr:
        inside = value(at)
        for d, low, high in checked:
            within = tirx.And(at[d] >= low, at[d] < high)
            inside = tirx.if_then_else(within, inside, fill)
        return inside

    return Source(guarded, lower, upper, inlined.expand(fill))


def _evaluator(stage: Stage, value: Expr, inlined: Inlined) -> Callable[[Sequence[Expr]], Expr]:
    part = Stage(stage.spatial, (), stage.buffer, stage.indices, None, value)
    return lambda at: inlined.expand(value_at(part, at))


def _padded(
    stage: Stage, extents: tuple[int, ...], slid: Collection[int]
) -> tuple[tuple[int, ...], tuple[int, ...], Expr, Expr] | None:
    """
    The bounds, inner value and fill of a value `if_then_else(bounds, inner, constant)`. What is
    asked of other dimensions than those that are `slid` over may be no bounds: then it is asked in
    the inner value.
    """
    value = stage.value
    if not called(value, IF_THEN_ELSE):
        return None
    if variables(value.args[2]) & {axis.var for axis in stage.spatial}:
        return None
    lower, upper, inner = [0] * len(extents), list(extents), value.args[1]
    moving = {stage.spatial[dimension].var for dimension in slid}
    for condition in conjuncts(value.args[0]):
        limits = bound(condition, stage)
        if limits is not None:
            dimension, low, high = limits
            lower[dimension] = greatest(lower[dimension], low)
            upper[dimension] = least(upper[dimension], high)
        elif variables(condition) & moving:
            return None
        else:
            inner = tirx.if_then_else(condition, inner, value.args[2])
    return tuple(lower), tuple(upper), inner, value.args[2]


def conjuncts(condition: Expr) -> list[Expr]:
    """The conditions that hold together where `condition` holds."""
    if isinstance(condition, tirx.And):
        return [*conjuncts(condition.a), *conjuncts(condition.b)]
    return [condition]


def bound(condition: Expr, stage: Stage) -> tuple[int, int, int] | None:
    """The dimension and its bounds that follow from a comparison with what no axis changes."""
    if not isinstance(condition, (tirx.LE, tirx.LT)):
        return None
    strict = isinstance(condition, tirx.LT)
    axes = {axis.var for axis in stage.spatial}
    for dimension, axis in enumerate(stage.spatial):
        if axis.var.same_as(condition.b) and (low := _size(condition.a, axes)) is not None:
            return dimension, low + strict, axis.extent
        if axis.var.same_as(condition.a) and (high := _size(condition.b, axes)) is not None:
            return dimension, 0, high + (not strict)
    return None


def _size(value: Expr, axes: set[tirx.Var]) -> int | None:
    """A value in which no axis is and nothing is read; None for another."""
    return None if variables(value) & axes or loads(value) else size_of(value)


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """
    A tile of an operand in a flat buffer: a plane of rows for each channel and phase.

    The rows of a plane follow each other without gaps, `pitch` elements apart. The output elements
    of the tile are numbered by `row * pitch + column`, so for every tap they read consecutive
    elements, even across the ends of rows. The few elements computed between rows are not stored.
    """

    y: Window | None
    x: Window
    channels: int
    height: int
    width: int
    lanes: int

    @property
    def pitch(self) -> int:
        return self.width + self.x.reach

    @property
    def rows(self) -> int:
        return self.height + (self.y.reach if self.y else 0)

    @property
    def vectors(self) -> int:
        """The number of vectors of output elements, including those between rows."""
        return -(-((self.height - 1) * self.pitch + self.width) // self.lanes)

    @property
    def plane(self) -> int:
        """
        The number of elements of a plane. It is an odd number of vectors, so that the channels do
        not all use the same sets of the cache.
        """
        furthest = (self.y.reach if self.y else 0) * self.pitch + self.x.reach
        needed = max(self.vectors * self.lanes + furthest, self.rows * self.pitch)
        vectors = -(-needed // self.lanes)
        return (vectors + (vectors % 2 == 0)) * self.lanes

    @property
    def planes(self) -> int:
        return self.channels * self.phases

    @property
    def phases(self) -> int:
        return self.x.phases * (self.y.phases if self.y else 1)

    @property
    def size(self) -> int:
        return self.planes * self.plane

    def position(self, channel: Expr, taps: dict[tirx.Var, Expr]) -> Expr:
        """The position of the input of output element zero for a tap."""
        x_phase, x_shift = self.x.phase_and_shift(taps)
        plane, shift = channel, x_shift
        if self.y:
            y_phase, y_shift = self.y.phase_and_shift(taps)
            plane = plane * self.y.phases + y_phase
            shift = shift + y_shift * self.pitch
        return (plane * self.x.phases + x_phase) * self.plane + shift

    def fill(
        self, buffer: Buffer, source: Source, at: Callable[[Expr], list[Expr]], y: Expr, x: Expr
    ) -> Stmt:
        """
        Pack the tile whose first output element is at `y`, `x`.

        `at(channel)` gives the indices of the operand without its windows.
        """

        def plane(channel: Expr) -> Stmt:
            parts = []
            for py, px in product(range(self.y.phases if self.y else 1), range(self.x.phases)):
                number = channel * self.phases + (py * self.x.phases + px)
                start = number * self.plane
                parts.append(self._plane(buffer, source, at(channel), start, (py, px), (y, x)))
            return sequence(parts)

        return loop(self.channels, plane, name="channel")

    def _plane(
        self,
        buffer: Buffer,
        source: Source,
        at: list[Expr],
        start: Expr,
        phase: tuple[int, int],
        first: tuple[Expr, Expr],
    ) -> Stmt:
        def row(e: Expr) -> Stmt:
            indices = list(at)
            inside: Expr = None
            if self.y:
                raw = (first[0] + e) * self.y.stride + (self.y.base + phase[0] * self.y.unit)
                indices[self.y.dimension] = raw
                inside = self._row_check(source, raw)
            place = start + e * self.pitch
            copy = self._row(buffer, source, indices, place, phase[1], first[1])
            if inside is None:
                return copy
            return tirx.IfThenElse(inside, copy, self._blank(buffer, source, place, self.pitch))

        rest = self.plane - self.rows * self.pitch
        parts = [loop(self.rows, row, name="row")]
        if rest:
            place = start + self.rows * self.pitch
            parts.append(self._blank(buffer, source, place, rest))
        return sequence(parts)

    def _row_check(self, source: Source, raw: Expr) -> Expr | None:
        assert self.y is not None
        low, high = source.lower[self.y.dimension], source.upper[self.y.dimension]
        most = (-(-self.y.axis.extent // self.height) * self.height + self.y.reach) * self.y.stride
        checks = []
        if low > self.y.base:
            checks.append(raw >= low)
        if high < self.y.base + most:
            checks.append(raw < high)
        if not checks:
            return None
        return checks[0] if len(checks) == 1 else tirx.And(*checks)

    def _blank(self, buffer: Buffer, source: Source, place: Expr, count: int) -> Stmt | None:
        if count <= 0:
            return None
        return vectorised(count, self.lanes, lambda e: store(buffer, source.fill, place + e))

    def _row(
        self,
        buffer: Buffer,
        source: Source,
        indices: list[Expr],
        place: Expr,
        phase: int,
        first: Expr,
    ) -> Stmt:
        window = self.x
        base = window.base + phase * window.unit
        low, high = source.lower[window.dimension], source.upper[window.dimension]

        def raw(position: Expr) -> Expr:
            at = list(indices)
            at[window.dimension] = position
            return source.value(at)

        def copy(e: Expr) -> Stmt:
            return store(buffer, raw((first + e) * window.stride + base), place + e)

        start = constant(first)
        if start is None:
            return self._guarded(buffer, source, copy, place, (base, low, high), first)
        offset = base + start * window.stride
        begin = min(max(0, -(-(low - offset) // window.stride)), self.pitch)
        end = max(begin, min(self.pitch, -(-(high - offset) // window.stride)))
        paired = 0
        if window.stride == 2:
            paired = (min(end, (high - offset) // 2) - begin) // self.lanes
        parts = [self._blank(buffer, source, place, begin)]
        if paired > 0:
            parts.append(
                self._every_second(
                    buffer, lambda e: raw(e + (2 * begin + offset)), place + begin, paired
                )
            )
            begin += paired * self.lanes
        if end > begin:
            parts.append(vectorised(end - begin, self.lanes, lambda e: copy(e + begin)))
        return sequence([*parts, self._blank(buffer, source, place + end, self.pitch - end)])

    def _every_second(
        self, buffer: Buffer, raw: Callable[[Expr], Expr], place: Expr, chunks: int
    ) -> Stmt:
        """
        Copy every second element of a row: read two vectors and pick one vector out of them.

        LLVM makes one shuffle of this, but scalar reads of a vector read with stride two.
        """
        lanes = self.lanes
        pair = scratch(2 * lanes, str(buffer.dtype), "pair", "local")

        def pick(chunk: Expr) -> Stmt:
            def take(half: Expr) -> Stmt:
                start = chunk * (2 * lanes) + half * lanes
                return vector(lanes, lambda e: store(pair, raw(start + e), half * lanes + e))

            halves = [load(pair, tirx.Ramp(integer(h * lanes), integer(1), lanes)) for h in (0, 1)]
            chosen = tirx.Shuffle(halves, [2 * lane for lane in range(lanes)])
            out = store(buffer, chosen, tirx.Ramp(place + chunk * lanes, integer(1), lanes))
            return scoped([pair], sequence([unrolled(2, take), out]), "pair")

        return loop(chunks, pick, name="chunk")

    def _guarded(
        self,
        buffer: Buffer,
        source: Source,
        copy: Callable[[Expr], Stmt],
        place: Expr,
        bounds: tuple[int, int, int],
        first: Expr,
    ) -> Stmt:
        """Copy a row whose place in the operand is known only at run time."""
        base, low, high = bounds
        stride = self.x.stride

        def raw(e: Expr) -> Expr:
            return (first + e) * stride + base

        def element(e: Expr) -> Stmt:
            inside = tirx.And(raw(e) >= low, raw(e) < high)
            return tirx.IfThenElse(inside, copy(e), store(buffer, source.fill, place + e))

        last = integer(self.pitch - 1)
        whole = tirx.And(raw(integer(0)) >= low, raw(last) < high)
        fast = vectorised(self.pitch, self.lanes, copy)
        return tirx.IfThenElse(whole, fast, loop(self.pitch, element, name="column"))
