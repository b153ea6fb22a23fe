"""
Values whose operators are not emitted yet, so that later operators can be folded into them.

Batch norm, and multiplication or addition of a constant by channel, are all `x * scale + shift`.
A chain of them becomes one. After a convolution or a product with a constant matrix nothing of it
remains: scale and shift go into the weight and the bias. All this happens in numpy, before Relax
sees the model.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np

from collage_dsl.graph.arrays import Array


@dataclass(frozen=True, slots=True)
class Factor:
    """
    One number, or one for each channel. `name` is the name of the ONNX value, empty if the factor
    was computed.
    """

    values: Array
    name: str = ""

    def times(self, other: "Factor | None") -> "Factor":
        return self if other is None else Factor(_wide(self) * _wide(other))

    def plus(self, other: "Factor | None") -> "Factor":
        return self if other is None else Factor(_wide(self) + _wide(other))


def _wide(factor: Factor) -> Array:
    return factor.values.astype(np.float64)


@dataclass(frozen=True, slots=True)
class Step:
    """`x * scale + shift`, either of which may be missing."""

    scale: Factor | None = None
    shift: Factor | None = None

    @property
    def is_by_one(self) -> bool:
        """Whether there is a scale that changes nothing."""
        return self.scale is not None and bool((self.scale.values == 1).all())

    def then(self, later: "Step") -> "Step":
        """One step equal to this step followed by `later`."""
        scale = self.scale if later.scale is None else later.scale.times(self.scale)
        shift = self.shift
        if shift is not None and later.scale is not None:
            shift = shift.times(later.scale)
        if later.shift is not None:
            shift = later.shift.plus(shift)
        return Step(scale, shift)


@dataclass(frozen=True, slots=True)
class Layout:
    """The dtype and rank of a value, the axis of its channels, and their number."""

    dtype: str
    rank: int
    axis: int
    channels: int | None

    def factor(self, array: Array, name: str = "") -> Factor | None:
        """`array` as a factor; None if it is neither one number nor one for each channel."""
        if array.size == 1 and array.ndim <= self.rank:
            return Factor(array.reshape(1), name)
        if array.ndim > self.rank or array.size != self.channels:
            return None
        shape = (1,) * (self.rank - array.ndim) + array.shape
        return Factor(array.reshape(-1), name) if shape[self.axis] == array.size else None

    def spread(self, values: Array) -> Array:
        """One value for each channel, in the canonical shape: [C] or [1, C, 1, …]."""
        behind = self.rank - 1 - self.axis
        shape = (1, -1, *(1,) * behind) if behind else (-1,)
        return values.astype(self.dtype, copy=False).reshape(shape)

    def holds(self, *factors: Factor | None) -> bool:
        """Whether the numbers of all factors are finite in the dtype."""
        with np.errstate(over="ignore"):
            arrays = [each.values.astype(self.dtype, copy=False) for each in factors if each]
        return all(bool(np.isfinite(array).all()) for array in arrays)


@dataclass(frozen=True, slots=True)
class Affine:
    """`source * scale + shift`."""

    source: Any
    layout: Layout
    step: Step

    def then(self, later: Step) -> "Affine":
        return replace(self, step=self.step.then(later))

    @property
    def is_in_range(self) -> bool:
        """Whether the numbers are finite in the dtype, and no scale is too small for all digits."""
        scale = self.step.scale
        size = np.zeros(0) if scale is None else np.abs(_wide(scale))
        is_small = (size > 0) & (size < ml_dtypes.finfo(self.layout.dtype).smallest_normal)
        return not is_small.any() and self.layout.holds(scale, self.step.shift)


@dataclass(frozen=True, slots=True)
class Linear:
    """
    A convolution or matrix product with a constant weight, and a bias.

    `call` makes the operator call from the weight. `rows` is the axis of the weight that becomes
    the channels of the result.
    """

    call: Callable[[Any], Any] = field(repr=False)
    layout: Layout
    weight: Factor
    rows: int
    bias: Factor | None = None

    def then(self, later: Step) -> "Linear":
        weight = self.weight
        if later.scale is not None:
            shape = [1] * weight.values.ndim
            shape[self.rows] = -1
            scale = _wide(later.scale).reshape(shape)
            with np.errstate(over="ignore"):
                weight = Factor((weight.values * scale).astype(self.layout.dtype))
        return replace(self, weight=weight, bias=Step(shift=self.bias).then(later).shift)

    @property
    def is_in_range(self) -> bool:
        """Whether the numbers that were computed are finite in the dtype."""
        return self.layout.holds(None if self.weight.name else self.weight, self.bias)


Pending = Affine | Linear
