"""What a converter of an ONNX operator is given: a node, and the values so far."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import onnx
from tvm import relax, tirx

from collage_dsl.frontend.onnx_affine import Layout, Pending
from collage_dsl.frontend.onnx_sizes import Arithmetic, Sizes
from collage_dsl.graph.arrays import Array

Value = Any
"""An ONNX value: a numpy array, a Relax expression, or a pending value (`Pending`)."""


class Scope(Protocol):
    """The access of a converter to the values so far."""

    opset: int
    arithmetic: Arithmetic

    def constant(self, name: str) -> Array | None:
        """The value `name` if it is constant, else None."""

    def number(self, name: str) -> Array | None:
        """The value `name` if it is constant, or dequantized from constants."""

    def sizes(self, name: str) -> Sizes | None:
        """The value `name` if its elements follow from dimensions of inputs, and are no numbers."""

    def cast_sizes(self, name: str) -> list[Any] | None:
        """The elements of `name` before they were cast, if they are sizes that were cast."""

    def dims(self, name: str) -> list[Any] | None:
        """The dimensions of a tensor, of which some are no numbers; None where one is not known."""

    def is_of_model(self, name: str) -> bool:
        """Whether a node of the model computes `name`, and not one of a graph inside."""

    def expr(self, name: str) -> Any:
        """The value `name` as an expression. A pending value is emitted."""

    def pending(self, name: str) -> Pending | None:
        """The value `name` if it is pending and nothing else uses it, else None."""

    def emit(self, expr: Any) -> Any:
        """A variable bound to an expression."""

    def literal(self, array: Array, name: str = "") -> Any:
        """A Relax constant."""


@dataclass(frozen=True, slots=True)
class Site:
    """One node of an ONNX graph, and the values that it may use."""

    scope: Scope
    node: onnx.NodeProto
    attrs: Mapping[str, Any]

    def has(self, place: int) -> bool:
        return place < len(self.node.input) and bool(self.node.input[place])

    def constant(self, place: int) -> Array | None:
        return self.scope.constant(self.node.input[place]) if self.has(place) else None

    def sizes(self, place: int) -> list[Any] | None:
        """The elements of a vector or scalar of integers; None where they are not known."""
        if not self.has(place):
            return None
        array = self.constant(place)
        if array is not None:
            return array.ravel().tolist() if array.dtype.kind == "i" else None
        found = self.scope.sizes(self.node.input[place])
        return None if found is None else list(found.values.flat)

    def dims(self, place: int = 0) -> list[Any] | None:
        return self.scope.dims(self.node.input[place])

    def expr(self, place: int) -> Any:
        return self.scope.expr(self.node.input[place])

    def layout(self, place: int) -> Layout | None:
        """The layout of a floating point operand of known rank; None for others."""
        pending = self.scope.pending(self.node.input[place])
        return pending.layout if pending else layout_of(self.expr(place).ty)

    def name(self, place: int) -> str:
        return str(self.node.input[place])


LEAST_DIVISOR = 2.0**-14
"""A number is multiplied by the reciprocal if both are normal in all types of floats."""


Converter = Callable[[Site], Value | None]
"""Converts one node; None if TVM's converter is right for this node."""


def layout_of(type_: Any) -> Layout | None:
    if not isinstance(type_, relax.TensorType) or type_.dtype is None or type_.ndim < 1:
        return None
    dtype = str(type_.dtype.dtype)
    if "float" not in dtype:
        return None
    dims = static_dims(type_)
    axis = min(1, type_.ndim - 1)
    return Layout(dtype, type_.ndim, axis, dims[axis])


def static_dims(type_: Any) -> list[int | None]:
    """The dimensions of a tensor type, with None for a symbolic one."""
    if not isinstance(type_.shape, relax.ShapeExpr):
        return [None] * type_.ndim
    values = type_.shape.values
    return [int(d.value) if isinstance(d, tirx.IntImm) else None for d in values]


def check_sizes(name: str, value: Any) -> None:
    """Raises ValueError for a tensor with a dimension below 0, as of windows that do not fit."""
    type_ = getattr(value, "ty", None)
    dims = static_dims(type_) if isinstance(type_, relax.TensorType) else []
    least = min((dim for dim in dims if dim is not None), default=0)
    if least < 0:
        raise ValueError(f"`{name}` would have a dimension of {least}")


def known_dims(dims: Sequence[int | None]) -> list[int] | None:
    """`dims` if all are known, else None."""
    known = [dim for dim in dims if dim is not None]
    return known if len(known) == len(dims) else None
