"""Emit products of a small constant matrix with vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tvm import tirx

from collage_dsl.backends.schedule.expressions import Buffer, Expr, integer
from collage_dsl.backends.schedule.loops import Stmt, load, loop, scratch, sequence, store
from collage_dsl.backends.schedule.winograd.transforms import Matrix


def ramp(first: Expr, lanes: int) -> Expr:
    """The indices of `lanes` neighbours."""
    return first if lanes == 1 else tirx.Ramp(first, 1, lanes)


def spread(value: Expr, lanes: int) -> Expr:
    """The value in every lane."""
    return value if lanes == 1 else tirx.Broadcast(value, lanes)


class Lines:
    """Straight code on vectors of `lanes` numbers: each value has a name."""

    def __init__(self, lanes: int, dtype: str = "float32") -> None:
        self.lanes, self.dtype = lanes, dtype
        self.statements: list[Stmt] = []

    def named(self, value: Expr) -> Expr:
        name = tirx.Var("t", value.ty.dtype)
        self.statements.append(tirx.Bind(name, value))
        return name

    def read(self, buffer: Buffer, first: Expr) -> Expr:
        return self.named(load(buffer, ramp(first, self.lanes)))

    def write(self, buffer: Buffer, value: Expr, first: Expr) -> None:
        self.statements.append(store(buffer, value, ramp(first, self.lanes)))

    def constant(self, factor: Fraction) -> Expr:
        return spread(tirx.FloatImm(self.dtype, float(factor)), self.lanes)

    def plus(self, value: Expr, factor: Fraction, other: Expr) -> Expr:
        """`value + factor * other`."""
        if factor == 1:
            return self.named(value + other)
        if factor == -1:
            return self.named(value - other)
        return self.named(value + self.constant(factor) * other)

    def sum(self, factors: Sequence[Fraction], values: Sequence[Expr]) -> Expr | None:
        """The sum of the values times their factors; None if all factors are zero."""
        terms = [(f, v) for f, v in zip(factors, values, strict=True) if f]
        if not terms:
            return None
        terms.sort(key=lambda term: term[0] != 1)
        (factor, first), *rest = terms
        total = first if factor == 1 else self.named(self.constant(factor) * first)
        for factor, value in rest:
            total = self.plus(total, factor, value)
        return total

    def rows(self, matrix: Matrix, values: Sequence[Expr]) -> list[Expr]:
        """
        The product `matrix @ values`.

        Two rows that differ in the signs of their odd columns only, as those of two opposite points
        do, are the sum and the difference of the same two parts.
        """
        found: dict[int, Expr] = {}
        for number, row in enumerate(matrix):
            if number in found:
                continue
            twin = _mirrored(row)
            if twin == row or twin not in matrix:
                found[number] = self.sum(row, values)
                continue
            even = self.sum(row[::2], values[::2])
            factor = next(f for f in row[1::2] if f)
            odd = self.sum([f / factor for f in row[1::2]], values[1::2])
            found[number] = self.plus(even, factor, odd)
            found[matrix.index(twin)] = self.plus(even, -factor, odd)
        return [found[number] for number in range(len(matrix))]

    def columns(self, matrix: Matrix, values: Sequence[Expr]) -> list[Expr]:
        """
        The product `matrix @ values`.

        Of two columns that differ in the signs of their odd rows only, the even rows need the sum
        of the two values, and the odd rows the difference.
        """
        columns = list(zip(*matrix, strict=True))
        even, odd, factors = [], [], []
        for number, column in enumerate(columns):
            twin = _mirrored(column)
            if twin == column or twin not in columns:
                even.append(values[number])
                odd.append(values[number])
                factors.append(column)
            elif columns.index(twin) > number:
                other = values[columns.index(twin)]
                even.append(self.named(values[number] + other))
                odd.append(self.named(values[number] - other))
                factors.append(column)
        rows = zip(*factors, strict=True)
        return [self.sum(row, odd if n % 2 else even) for n, row in enumerate(rows)]


def _mirrored(row: Sequence[Fraction]) -> tuple[Fraction, ...]:
    return tuple(-factor if place % 2 else factor for place, factor in enumerate(row))


@dataclass(frozen=True, slots=True)
class BothWays:
    """
    The product `down @ values @ across.T` of a matrix of vectors, as a loop over the columns of
    `values` and a loop over the rows of what these become.
    """

    down: Matrix
    across: Matrix
    lanes: int
    by_rows: bool
    dtype: str = "float32"

    def between(self) -> Buffer:
        """A buffer for what lies between the loops."""
        return scratch(len(self.down) * len(self.across[0]) * self.lanes, self.dtype, "columns")

    def statement(
        self,
        held: Buffer,
        read: Callable[[Lines, int, Expr], Expr],
        write: Callable[[Lines, Expr, int, Expr], None],
    ) -> Stmt:
        """
        The loops, with `between()` for `held`. `read(lines, i, j)` reads a value, and
        `write(lines, i, j, value)` writes an element of the product.
        """
        width = len(self.across[0])

        def place(i: Expr, j: Expr) -> Expr:
            return (i * width + j) * self.lanes

        def column(j: Expr) -> Stmt:
            lines = Lines(self.lanes, self.dtype)
            values = [read(lines, i, j) for i in range(len(self.down[0]))]
            for i, value in enumerate(self._product(lines, self.down, values)):
                lines.write(held, value, place(integer(i), j))
            return sequence(lines.statements)

        def row(i: Expr) -> Stmt:
            lines = Lines(self.lanes, self.dtype)
            values = [lines.read(held, place(i, integer(j))) for j in range(width)]
            for j, value in enumerate(self._product(lines, self.across, values)):
                write(lines, i, j, value)
            return sequence(lines.statements)

        columns = loop(width, column, name="column")
        return sequence([columns, loop(len(self.down), row, name="row")])

    def _product(self, lines: Lines, matrix: Matrix, values: Sequence[Expr]) -> list[Expr]:
        return lines.rows(matrix, values) if self.by_rows else lines.columns(matrix, values)
