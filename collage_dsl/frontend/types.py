"""Convert types of Relax to types of a `Graph`, and back."""

from typing import Any

import tvm
from tvm import relax

from collage_dsl.frontend.dims import UNKNOWN, Symbols, dim_of, expr_of
from collage_dsl.frontend.errors import UnsupportedValue
from collage_dsl.graph import Dim, OpaqueType, TensorType, TupleType, Type

UNKNOWN_DTYPE = "unknown"

SHAPE = OpaqueType("shape")
"""A shape literal: a tuple of dimensions."""
STRING = OpaqueType("string")
DTYPE = OpaqueType("dtype")
SCALARS = OpaqueType("scalars")
"""A literal tuple of numbers, such as the bounds of a slice."""


def type_of(type_: Any) -> Type:
    """The graph type for a Relax type. The type of a scalar is opaque, named by its dtype."""
    match type_:
        case relax.TensorType():
            dtype = UNKNOWN_DTYPE if type_.dtype is None else str(type_.dtype.dtype)
            return TensorType(dtype, _dims(type_))
        case relax.TupleType():
            return TupleType(tuple(type_of(field) for field in type_.fields))
        case relax.ShapeType():
            return SHAPE
        case tvm.ir.PrimType():
            return OpaqueType(str(type_.dtype))
        case relax.ObjectType() | relax.AnyType():
            return OpaqueType("object")
    raise UnsupportedValue(f"values of type `{type_}` cannot be represented")


def _dims(type_: Any) -> tuple[Dim, ...] | None:
    if isinstance(type_.shape, relax.ShapeExpr):
        return tuple(dim_of(dim) for dim in type_.shape.values)
    return None if type_.ndim < 0 else (UNKNOWN,) * type_.ndim


def relax_type(type_: Type, symbols: Symbols) -> Any:
    """The Relax type for `type_`. Its symbolic dimensions are variables in `symbols`."""
    match type_:
        case TensorType(dtype, shape):
            known = None if dtype == UNKNOWN_DTYPE else dtype
            if shape is None:
                return relax.TensorType(dtype=known)
            if UNKNOWN in shape:
                return relax.TensorType(dtype=known, ndim=len(shape))
            return relax.TensorType([expr_of(dim, symbols) for dim in shape], known)
        case TupleType(fields):
            return relax.TupleType([relax_type(field, symbols) for field in fields])
        case OpaqueType("shape"):
            return relax.ShapeType()
        case OpaqueType() if type_.is_of_onnx or type_.what == "object":
            return relax.ObjectType()
        case OpaqueType(dtype):
            return tvm.ir.PrimType(dtype)
