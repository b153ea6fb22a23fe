"""Emit products of a small constant matrix with vectors, as code without loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from tvm import tirx

from collage_dsl.backends.schedule.expressions import Buffer, Expr
from collage_dsl.backends.schedule.loops import Stmt, load, store
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


def both_ways(
    lines: Lines,
    down: Matrix,
    across: Matrix,
    element: Callable[[int, int], Expr],
    by_rows: bool,
) -> list[list[Expr]]:
    """
    The product `down @ values @ across.T` of a matrix of vectors.

    `element(i, j)` reads a value. Each column is read just before it is used, to save registers.
    """
    product = lines.rows if by_rows else lines.columns
    columns = [
        product(down, [element(i, j) for i in range(len(down[0]))]) for j in range(len(across[0]))
    ]
    return [product(across, row) for row in zip(*columns, strict=True)]
