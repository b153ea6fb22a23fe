"""Types of values, forms of nodes and kinds of operators in a graph."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from math import prod

Dim = int | str
"""A dimension: a number, or the name (or expression) of a symbolic one."""


_WIDTH = re.compile(r"[a-z]+([0-9]+)")
"""Finds the width in bits in `float32` and in `float8_e4m3fn`."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """
    A tensor of `dtype` ("float32", "int64", "bool", …) and `shape`.

    `shape` is None if not even the rank is known.
    """

    dtype: str
    shape: tuple[Dim, ...] | None

    @property
    def rank(self) -> int | None:
        return None if self.shape is None else len(self.shape)

    @property
    def is_static(self) -> bool:
        return self.shape is not None and all(isinstance(dim, int) for dim in self.shape)

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape, all of whose dimensions must be numbers."""
        assert self.shape is not None
        dims = tuple(dim for dim in self.shape if isinstance(dim, int))
        assert len(dims) == len(self.shape), f"{self} has symbolic dimensions"
        return dims

    @property
    def size(self) -> int | None:
        """The number of elements; None if a dimension is symbolic."""
        return prod(self.static_shape) if self.is_static else None

    @property
    def bytes(self) -> int | None:
        """The size of the packed elements; None if their number or width is unknown."""
        bits = bits_of(self.dtype)
        return None if self.size is None or bits is None else (self.size * bits + 7) // 8

    def __str__(self) -> str:
        dims = "*" if self.shape is None else ", ".join(map(str, self.shape))
        return f"{short_dtype(self.dtype)}[{dims}]"


@dataclass(frozen=True, slots=True)
class TupleType:
    """A tuple of values."""

    fields: tuple["Type", ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.fields))})"


@dataclass(frozen=True, slots=True)
class OpaqueType:
    """
    A value that is neither tensor nor tuple: a shape, a scalar literal, an object. Of a value that
    only ONNX has, the type as ONNX Runtime writes it: `seq(tensor(float))`.
    """

    what: str = "object"

    @property
    def is_of_onnx(self) -> bool:
        return "(" in self.what

    def __str__(self) -> str:
        return self.what


Type = TensorType | TupleType | OpaqueType


def tensors(type_: Type) -> Iterator[TensorType]:
    """The tensors in `type_`, tuples flattened."""
    match type_:
        case TensorType():
            yield type_
        case TupleType(fields):
            for field in fields:
                yield from tensors(field)
        case OpaqueType():
            pass


class Kind(IntEnum):
    """
    How an operator maps elements to elements, in the order and with the numbers of TVM's
    `OpPatternKind`. The kind of a kernel is the greatest kind in it.
    """

    ELEMENTWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    REDUCE = 3
    ANCHOR = 4
    OPAQUE = 8

    def __str__(self) -> str:
        return self.name.lower()


KINDS: Mapping[str, Kind] = {str(kind): kind for kind in Kind}
"""Each kind by the word for it: `elementwise`."""


class Form(Enum):
    """Where a node gets its value from."""

    INPUT = "input"
    CONSTANT = "constant"
    LITERAL = "literal"
    """A shape, number, string or dtype that an operator takes as an operand."""
    CALL = "call"
    TUPLE = "tuple"
    PROJECTION = "projection"


_SHORT = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "bool": "bool",
    # Of less than 16 bits, as TVM and `ml_dtypes` name them.
    "float8_e3m4": "f8_e3m4",
    "float8_e4m3": "f8_e4m3",
    "float8_e4m3b11fnuz": "f8_e4m3b11fnuz",
    "float8_e4m3fn": "f8_e4m3fn",
    "float8_e4m3fnuz": "f8_e4m3fnuz",
    "float8_e5m2": "f8_e5m2",
    "float8_e5m2fnuz": "f8_e5m2fnuz",
    "float8_e8m0fnu": "f8_e8m0fnu",
    "float4_e2m1fn": "f4_e2m1fn",
    "int4": "i4",
    "uint4": "u4",
    "int2": "i2",
    "uint2": "u2",
}
_LONG = {short: long for long, short in _SHORT.items()}


def bits_of(dtype: str) -> int | None:
    """The width of an element of `dtype`; None if it is unknown."""
    width = _WIDTH.match(dtype)
    return 8 if dtype == "bool" else int(width[1]) if width else None


def whole_range(dtype: str) -> tuple[int, int] | None:
    """The least and the greatest element of a dtype of whole numbers, or `bool`; else None."""
    bits = bits_of(dtype)
    if dtype == "bool":
        return 0, 1
    if bits is not None and dtype.startswith("uint"):
        return 0, (1 << bits) - 1
    if bits is not None and dtype.startswith("int"):
        return -(1 << bits - 1), (1 << bits - 1) - 1
    return None


def short_dtype(dtype: str) -> str:
    """The dtype as the language writes it: `f32` for `float32`."""
    return _SHORT.get(dtype, dtype)


def long_dtype(short: str) -> str | None:
    """`float32` for `f32` or `float32`; None if the language has no such dtype."""
    return _LONG.get(short) or (short if short in _SHORT else None)


def dtype_names() -> tuple[str, ...]:
    """The dtypes of the language, as it writes them."""
    return tuple(_LONG)
