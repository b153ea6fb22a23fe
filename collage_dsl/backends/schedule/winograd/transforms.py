"""
The matrices of a Winograd convolution, in exact rational numbers.

S. Winograd, Arithmetic Complexity of Computations, 1980; for neural networks, A. Lavin and S. Gray,
Fast Algorithms for Convolutional Neural Networks, 2015. `outputs` neighbouring results of a filter
of `taps` need `outputs + taps - 1` multiplications:

    result @ ((weights @ filter) * (data @ inputs))

The matrices follow from the algorithm of Cook and Toom. It evaluates two polynomials at some
points, multiplies the values, and interpolates the product. A correlation is this, transposed.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import prod

Matrix = tuple[tuple[Fraction, ...], ...]


def _opposite(*points: Fraction) -> tuple[Fraction, ...]:
    """Zero, and each point with its opposite, for which the transforms share sums."""
    return (Fraction(0), *(signed for point in points for signed in (point, -point)))


POINTS: dict[int, tuple[Fraction, ...]] = {
    1: (),
    4: _opposite(Fraction(1)),
    6: _opposite(Fraction(2, 3), Fraction(3, 2)),
    8: _opposite(Fraction(1), Fraction(1, 2), Fraction(2)),
}
"""
The finite points by the number of inputs; the last point is infinity. Those for six and eight
inputs were found by a search over small fractions for the least error in float32.
"""


@dataclass(frozen=True, slots=True)
class Transform:
    """The one-dimensional algorithm for some neighbouring outputs of a filter with some taps."""

    outputs: int
    taps: int

    @property
    def inputs(self) -> int:
        """The number of inputs that the outputs depend on, and of multiplications."""
        return self.outputs + self.taps - 1

    @property
    def data(self) -> Matrix:
        """A row for each point: the polynomial that is zero at all other points."""
        return _data(self.inputs)

    @property
    def weights(self) -> Matrix:
        """The filter as a polynomial, evaluated at each point and divided by its scale."""
        points = POINTS[self.inputs]
        finite = [
            tuple(point**power / _scale(points, point) for power in range(self.taps))
            for point in points
        ]
        return (*finite, _last(self.taps))

    @property
    def result(self) -> Matrix:
        """A column for each point: its powers."""
        points = POINTS[self.inputs]
        columns = [*(_powers(point, self.outputs) for point in points), _last(self.outputs)]
        return tuple(zip(*columns, strict=True))


@cache
def _data(inputs: int) -> Matrix:
    points = POINTS[inputs]
    finite = [_with_roots([p for p in points if p != point]) for point in points]
    return (*((*row, Fraction(0)) for row in finite), _with_roots(points))


def _scale(points: tuple[Fraction, ...], point: Fraction) -> Fraction:
    return prod((point - other for other in points if other != point), start=Fraction(1))


def _with_roots(roots: list[Fraction] | tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    """The coefficients of the polynomial with these roots, that of the lowest power first."""
    result = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *result]
        result = [
            high - root * low for high, low in zip(shifted, [*result, Fraction(0)], strict=True)
        ]
    return tuple(result)


def _powers(point: Fraction, count: int) -> tuple[Fraction, ...]:
    return tuple(point**power for power in range(count))


def _last(count: int) -> tuple[Fraction, ...]:
    return (*(Fraction(0),) * (count - 1), Fraction(1))


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile of outputs that is computed at once: a transform down the rows, and one across."""

    down: Transform
    across: Transform

    @property
    def points(self) -> int:
        """The number of products that are summed over the channels for each tile."""
        return self.down.inputs * self.across.inputs
