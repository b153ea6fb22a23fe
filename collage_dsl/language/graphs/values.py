"""Hold the elements of constants in a text, with or without numpy."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Any

from collage_dsl.graph.floats import FORMATS, rounded

Scalar = bool | int | float


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Values:
    """The elements of a constant in row-major order, with what matching needs of an array."""

    shape: tuple[int, ...]
    elements: tuple[Scalar, ...]

    def ravel(self) -> "Values":
        return Values((len(self.elements),), self.elements)

    def min(self) -> Scalar:
        return min(self.elements)

    def max(self) -> Scalar:
        return max(self.elements)

    def tolist(self) -> Any:
        return _nested(self.shape, self.elements)


def fits(value: Scalar, dtype: str) -> bool:
    """Whether a constant of `dtype` can hold `value`; fractions may be rounded."""
    if dtype in FORMATS:
        return FORMATS[dtype].holds(value)
    if "float" in dtype or dtype == "unknown":
        return abs(value) < inf
    if dtype == "bool" or isinstance(value, bool):
        return value in (0, 1)
    if isinstance(value, float):
        return False
    bits = int(dtype.removeprefix("u").removeprefix("int"))
    if dtype.startswith("u"):
        return 0 <= value < 1 << bits
    return -(1 << bits - 1) <= value < 1 << bits - 1


def array(dtype: str, shape: tuple[int, ...], elements: Sequence[Scalar]) -> Any:
    """
    A numpy array if numpy is installed, as it is wherever graphs are run. Otherwise `Values`, so
    that rules can be tested without numpy.
    """
    try:
        import numpy as np

        return np.array(elements, dtype=dtype).reshape(shape)
    except (ImportError, TypeError):  # TypeError: numpy does not know the dtype
        return Values(shape, tuple(rounded(element, dtype) for element in elements))


def _nested(shape: tuple[int, ...], elements: tuple[Scalar, ...]) -> Any:
    if not shape:
        return elements[0]
    if len(shape) == 1:
        return list(elements)
    size = prod(shape[1:])
    rows = (elements[at * size : (at + 1) * size] for at in range(shape[0]))
    return [_nested(shape[1:], row) for row in rows]
