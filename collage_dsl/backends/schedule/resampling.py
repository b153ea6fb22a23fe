"""
Resample images along their rows first, and then down their columns.

TVM computes each element of a resized image by itself: it finds the places that it reads, and
combines what is there. But a column reads all rows at the same places. So each row of the image is
resampled once, into a *line*, and each row of the result combines a few lines, in vectors. The
places and the weights along a row are computed once, into tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from tvm import tirx
from tvm.ir import TensorLoad, Var

from collage_dsl.backends.schedule.context import Context, finish
from collage_dsl.backends.schedule.expressions import (
    ARITHMETIC,
    Buffer,
    Expr,
    coefficients,
    constant,
    equal,
    integer,
    loads,
    replace_loads,
    simplified,
    substitute,
    variables,
)
from collage_dsl.backends.schedule.groups import Group, wide
from collage_dsl.backends.schedule.loops import (
    Stmt,
    load,
    loop,
    parallel_nest,
    scoped,
    scratch,
    sequence,
    store,
    vector,
    vectorised,
)
from collage_dsl.backends.schedule.sizes import is_known
from collage_dsl.backends.schedule.stages import Axis, Stage, extents, shape
from collage_dsl.backends.schedule.tables import Tables
from collage_dsl.backends.schedule.winograd.maps import Lines

MOST_VECTORS = 64
"""The longest line that is written by a statement for each of its vectors."""

Line = tuple[Buffer, Expr]
"""A buffer with lines, and where one starts."""


@dataclass(frozen=True, slots=True, eq=False)
class Resampling:
    """
    A stage that combines `line`, an expression of the variable `row`, at the rows `places` of an
    image that has `rows` rows.
    """

    stage: Stage
    line: Expr
    row: Var
    rows: int
    places: tuple[Expr, ...]

    @property
    def y(self) -> Axis:
        return self.stage.spatial[-2]

    @property
    def x(self) -> Axis:
        return self.stage.spatial[-1]

    @property
    def reused(self) -> bool:
        """Whether each line is combined so often that all of them are computed first."""
        return 2 * self.rows <= len(self.places) * self.y.extent

    @property
    def at_x(self) -> Expr:
        """The line, which is a read of the image, at `x` itself."""
        return tirx.BufferLoad(self.line.source, [*self.line.indices[:-1], self.x.var])

    def combined(self, lines: Buffer) -> Stage:
        """The stage, with lines that are in memory: all of them, or those at `places`."""

        def at_row(part: Expr) -> Expr:
            row = _row(part, self.y.var)
            if not self.reused:
                row = next(n for n, place in enumerate(self.places) if equal(place, row))
            return load(lines, row * self.x.extent + self.x.var)

        return replace(self.stage, value=_mapped(self.stage.value, self.y.var, at_row))


def resampled(group: Group, context: Context) -> Stmt | None:
    """The loops of a group whose first stage resamples images; None for another group."""
    form = resampling_of(group.stages[0])
    outer = wide(group.stages[0].spatial[:-2])
    images, cores = prod(extents(outer)), context.machine.cores
    if form is None or images < cores:
        return None
    lanes, width = context.machine.lanes, form.x.extent
    sizes = _sizes(form)
    across, down = Tables(form.x, sizes), Tables(form.y, sizes)
    columns = _columns(form, lanes)
    line = form.at_x if columns else across.replaced(form.line)
    places = [down.replaced(place) for place in form.places]
    lines = scratch((form.rows if form.reused else len(places)) * width, "float32", "lines")
    combined = form.combined(lines)
    combined = replace(combined, value=down.replaced(combined.value))
    stages = (combined, *group.stages[1:])

    def task(at: list[Expr]) -> Stmt:
        held = {axis.var: integer(0) for axis in form.stage.spatial[:-2]}
        held |= {axis.var: index for axis, index in zip(outer, at, strict=True)}

        def written(row: Expr, number: Expr) -> Stmt:
            def value(x: Expr) -> Expr:
                return substitute(line, {**held, form.row: row, form.x.var: x})

            first = number * width
            if columns:
                source = shape(form.line.source)[-1]
                return _copied(columns, source, lanes, value, (lines, first))
            return vectorised(width, lanes, lambda x: store(lines, value(x), first + x))

        def result(y: Expr) -> Stmt:
            return vectorised(width, lanes, lambda x: finish(context, stages, [*at, y, x], {}))

        def with_lines(y: Expr) -> Stmt:
            rows = [substitute(place, {form.y.var: y}) for place in places]
            return sequence([*(written(row, integer(n)) for n, row in enumerate(rows)), result(y)])

        if not form.reused:
            return loop(form.y.extent, with_lines, name="y")
        all_lines = loop(form.rows, lambda row: written(row, row), name="row")
        return sequence([all_lines, loop(form.y.extent, result, name="y")])

    each = parallel_nest(extents(outer), cores, lambda at: scoped([lines], task(at), "image"))
    filled = [*across.statements(), *down.statements()]
    return scoped([*across.buffers, *down.buffers], sequence([*filled, each]), "tables")


def _sizes(form: Resampling) -> set[Var]:
    """The variables in the sizes of the image and of the result."""
    buffers = [form.stage.buffer, *(read.source for read in loads(form.stage.value))]
    return {var for buffer in buffers for size in buffer.shape for var in variables(size)}


def resampling_of(stage: Stage) -> Resampling | None:
    """A stage as a resampling along rows; None for another one."""
    if len(stage.spatial) < 2 or any(axis.extent == 1 for axis in stage.spatial[-2:]):
        return None
    (y, x), row = (axis.var for axis in stage.spatial[-2:]), tirx.Var("row", "int64")
    parts: list[Expr] = []

    def noted(part: Expr) -> Expr:
        parts.append(part)
        return part

    if _mapped(stage.value, y, noted) is None or not parts:
        return None
    line, *others = (_at_row(part, y, row) for part in parts)
    if str(line.ty.dtype) != "float32" or not all(equal(line, other) for other in others):
        return None
    reads = [read for part in parts for read in _moving(part, y)]
    rows = {shape(read.source)[-2] for read in reads}
    if len(rows) != 1 or any(x in variables(read.indices[-2]) for read in reads):
        return None
    columns = [read.indices[-1] for read in reads]
    if all(coefficients(column, [x]) for column in columns) or any(map(loads, columns)):
        return None
    places: list[Expr] = []
    for part in parts:
        place = _row(part, y)
        if not any(equal(place, known) for known in places):
            places.append(place)
    return Resampling(stage, line, row, max(rows), tuple(places))


def _row(part: Expr, y: Var) -> Expr:
    """The row that a part reads."""
    return _moving(part, y)[0].indices[-2]


def _mapped(value: Expr, y: Var, of: Callable[[Expr], Expr]) -> Expr | None:
    """
    `value` with `of` each largest part that reads one row of the image that depends on `y`; None if
    a part reads several, and is no arithmetic.
    """
    reads = _moving(value, y)
    if not reads:
        return value
    if all(equal(read.indices[-2], reads[0].indices[-2]) for read in reads):
        rest = _at_row(value, y, tirx.Var("row", "int64"))
        if y not in variables(rest):
            return of(value)
    if not isinstance(value, ARITHMETIC):
        return None
    operands = [_mapped(each, y, of) for each in (value.a, value.b)]
    return None if any(each is None for each in operands) else type(value)(*operands)


def _moving(value: Expr, y: Var) -> list[TensorLoad]:
    """The reads of `value` that depend on `y`."""
    return [read for read in loads(value) if len(read.indices) > 1 and y in variables(read)]


def _at_row(value: Expr, y: Var, row: Var) -> Expr:
    """`value` with all that depends on `y` read at `row`."""

    def moved(read: TensorLoad) -> Expr:
        if len(read.indices) < 2 or y not in variables(read):
            return read
        return tirx.BufferLoad(read.source, [*read.indices[:-2], row, read.indices[-1]])

    return replace_loads(value, moved)


def _columns(form: Resampling, lanes: int) -> list[int]:
    """
    The columns that the elements of a line are copies of, if they are known, and each vector of
    them is taken from two vectors of neighbours at most; else none.
    """
    line, extent = form.line, form.x.extent
    if not isinstance(line, TensorLoad) or not is_known(extent):
        return []
    if not lanes <= extent <= MOST_VECTORS * lanes:
        return []
    if any(form.x.var in variables(other) for other in line.indices[:-1]):
        return []
    index, width = line.indices[-1], shape(line.source)[-1]
    found = [substitute(index, {form.x.var: integer(place)}) for place in range(extent)]
    known = [column for each in found if (column := constant(simplified(each))) is not None]
    if len(known) < extent or width < lanes:
        return []
    vectors = [known[start : start + lanes] for start in _starts(extent, lanes)]
    return known if all(len(_neighbours(each, width)) <= 2 for each in vectors) else []


def _starts(extent: int, lanes: int) -> list[int]:
    """Where the vectors of an axis start. The last one ends with it."""
    return [min(start, extent - lanes) for start in range(0, extent, lanes)]


def _neighbours(columns: Sequence[int], width: int) -> list[int]:
    """Where the vectors of neighbours start that have these columns."""
    lanes, starts, rest = len(columns), [], sorted(columns)
    while rest:
        starts.append(min(rest[0], width - lanes))
        rest = [column for column in rest if column >= starts[-1] + lanes]
    return starts


def _copied(
    columns: Sequence[int], width: int, lanes: int, value: Callable[[Expr], Expr], line: Line
) -> Stmt:
    """Write a line by reading neighbours and repeating them, in vectors."""
    parts: list[Stmt] = []
    for start in _starts(len(columns), lanes):
        wanted = columns[start : start + lanes]
        firsts, vectors = _neighbours(wanted, width), Lines(lanes)
        reads = [scratch(lanes, "float32", "read", "local") for _ in firsts]
        held = [column for first in firsts for column in range(first, first + lanes)]
        for first, read in zip(firsts, reads, strict=True):
            vectors.statements.append(vector(lanes, partial(_stored, read, value, first)))
        given = [vectors.read(read, integer(0)) for read in reads]
        repeated = tirx.Shuffle(given, [held.index(column) for column in wanted])
        vectors.write(line[0], repeated, line[1] + start)
        parts.append(scoped(reads, sequence(vectors.statements), "vector"))
    return sequence(parts)


def _stored(buffer: Buffer, value: Callable[[Expr], Expr], first: int, lane: Expr) -> Stmt:
    return store(buffer, value(lane + first), lane)
