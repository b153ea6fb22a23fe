"""One operator call with its ONNX operands, and the helpers of the functions that write it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from onnx import TensorProto

from collage_dsl.graph import Attribute, Dim, Node, TensorType
from collage_dsl.graph.arrays import Array

_ELEMENT_TYPES = {
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "int8": TensorProto.INT8,
    "int16": TensorProto.INT16,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "uint8": TensorProto.UINT8,
    "uint16": TensorProto.UINT16,
    "uint32": TensorProto.UINT32,
    "uint64": TensorProto.UINT64,
    "bool": TensorProto.BOOL,
}

Value = str | tuple[str, ...]
"""The ONNX name of a tensor, or those of a tuple's fields."""


class Unsupported(Exception):  # noqa: N818, reads as what it says
    """An operator, or a form of it, that cannot be expressed in ONNX."""

    def __init__(self, node_name: str, op: str, reason: str) -> None:
        super().__init__(node_name, op, reason)
        self.node_name = node_name
        self.op = op
        self.reason = reason

    def __str__(self) -> str:
        return f"`{self.op}` at `{self.node_name}` cannot be written in ONNX: {self.reason}"


class Emitter(Protocol):
    """Adds the nodes and constants that a call writes to the model."""

    def node(
        self, near: str, op: str, inputs: Sequence[str], outputs: int, attrs: dict[str, Any]
    ) -> tuple[str, ...]: ...

    def array(self, near: str, array: Array) -> str: ...

    def size(self, near: str, dim: Dim) -> str:
        """A vector of that one number. Raises LookupError where it is not known as a model runs."""


def element_type(node: Node, dtype: str) -> int:
    """The number of `dtype` in ONNX."""
    if dtype not in _ELEMENT_TYPES:
        raise Unsupported(node.name, node.op or "value", f"ONNX has no dtype {dtype}")
    return int(_ELEMENT_TYPES[dtype])


@dataclass(frozen=True, slots=True)
class Call:
    """
    A call with the ONNX values of its operands, and the emitter to write to.

    `literals` has the value of each operand if it is known while writing: a literal (a shape as a
    tuple), a tuple of literals, or a constant's array; else None.
    """

    node: Node
    operands: tuple[Value, ...]
    types: tuple[TensorType | None, ...]
    literals: tuple[Any, ...]
    to: Emitter

    # Parts of the call.

    def tensor(self, index: int = 0) -> str:
        """The ONNX name of operand `index`, which must be a tensor."""
        value = self.operands[index]
        assert isinstance(value, str), f"operand {index} of {self.node.name} is a tuple"
        return value

    @property
    def tensors(self) -> tuple[str, ...]:
        return tuple(self.tensor(i) for i in range(len(self.operands)))

    def fields(self, index: int = 0) -> tuple[str, ...]:
        """The ONNX names of the fields of operand `index`, which must be a tuple."""
        value = self.operands[index]
        return (value,) if isinstance(value, str) else value

    def type(self, index: int = 0) -> TensorType:
        """The type of operand `index`, which must be a tensor of known rank."""
        type_ = self.types[index]
        if type_ is None or type_.shape is None:
            raise self.refused(f"operand {index} is not a tensor of known rank")
        return type_

    def rank(self, index: int = 0) -> int:
        shape = self.type(index).shape
        assert shape is not None
        return len(shape)

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """The shape of operand `index`. Unsupported if it is not static."""
        type_ = self.type(index)
        if not type_.is_static:
            raise self.refused(f"the shape of operand {index} is not known: {type_}")
        return type_.static_shape

    def dims(self, index: int = 0) -> tuple[Dim, ...]:
        """The shape of operand `index`, in which there may be names."""
        shape = self.type(index).shape
        assert shape is not None
        return shape

    def dim(self, axis: int, index: int = 0) -> int:
        """One dimension of operand `index`, where it has to be known to write the call."""
        dim = self.dims(index)[axis]
        if not isinstance(dim, int):
            raise self.refused(f"dimension {axis} of operand {index} is not known: {dim}")
        return dim

    @property
    def result_dims(self) -> tuple[Dim, ...]:
        """The shape of the result, a tensor, in which there may be names."""
        type_ = self.node.tensor
        if type_.shape is None:
            raise self.refused(f"the shape of the result is not known: {type_}")
        return type_.shape

    def literal(self, index: int) -> Any:
        """The value of operand `index`. Unsupported if it is not known while writing."""
        if index >= len(self.operands) or self.literals[index] is None:
            raise self.refused(f"operand {index} is not a literal")
        value = self.literals[index]
        parts = value if isinstance(value, tuple) else (value,)
        symbolic = next((part for part in parts if isinstance(part, str)), None)
        self.require(symbolic is None, f"operand {index} depends on the dimension `{symbolic}`")
        return value

    def ints(self, index: int) -> tuple[int, ...]:
        """The literal operand `index` as a tuple of numbers, also if it is a single number."""
        return tuple(int(i) for i in np.atleast_1d(np.asarray(self.literal(index))))

    def attr(self, name: str, default: Attribute = None) -> Any:
        value = self.node.attrs.get(name)
        return default if value is None else value

    @property
    def result_dtype(self) -> str:
        return self.node.tensor.dtype

    def axis(self, value: int, rank: int | None = None) -> int:
        """`value` counted from the front."""
        return value % (self.rank() if rank is None else rank)

    def axes(self, name: str) -> tuple[int, ...] | None:
        """The attribute `name` as axes counted from the front; None if it has no value."""
        value = self.attr(name)
        if value is None:
            return None
        return tuple(self.axis(i) for i in ((value,) if isinstance(value, int) else value))

    # Refusals.

    def refused(self, reason: str) -> Unsupported:
        return Unsupported(self.node.name, self.node.op, reason)

    def require(self, holds: bool, reason: str) -> None:
        if not holds:
            raise self.refused(reason)

    # Writing.

    def cast(self, value: str, dtype: str) -> str:
        return self.emit("Cast", value, to=element_type(self.node, dtype))

    def emit(self, op: str, *inputs: str, **attrs: Any) -> str:
        """Write one ONNX node with one output. An input `""` is left out."""
        return self.emit_many(op, *inputs, outputs=1, **attrs)[0]

    def emit_many(self, op: str, *inputs: str, outputs: int, **attrs: Any) -> tuple[str, ...]:
        given = {name: value for name, value in attrs.items() if value is not None}
        return self.to.node(self.node.name, op, inputs, outputs, given)

    def int64(self, *values: Dim) -> str:
        """A vector of integers: a shape, axes. What has a name is computed as the model runs."""
        numbers = [value for value in values if isinstance(value, int)]
        if len(numbers) == len(values):
            return self.to.array(self.node.name, np.array(numbers, np.int64))
        try:
            sizes = [self.to.size(self.node.name, value) for value in values]
        except LookupError as unknown:
            raise self.refused(f"no input has the dimension `{unknown.args[0]}`") from None
        return sizes[0] if len(sizes) == 1 else self.emit("Concat", *sizes, axis=0)

    def array(self, array: Array) -> str:
        return self.to.array(self.node.name, array)

    def scalar(self, value: float, dtype: str | None = None) -> str:
        """A scalar constant, with the dtype of the first operand by default."""
        return self.array(np.array(value, self.type().dtype if dtype is None else dtype))

    def reshaped(self, value: str, *shape: Dim) -> str:
        return self.emit("Reshape", value, self.int64(*shape))


Write = Callable[[Call], Value]
"""Writes one call and returns the ONNX names of its result."""
