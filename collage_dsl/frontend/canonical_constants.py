"""The values of operators on constants, which canonical form has in their place."""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np
import tvm
from tvm import tirx

from collage_dsl.frontend.canonical_call import SMALL, OldCall, dims_of, keeps_dtype, passed_on
from collage_dsl.frontend.onnx_products import transposed
from collage_dsl.frontend.onnx_site import Value
from collage_dsl.graph.arrays import Array


def folded(function: Callable[..., Any], call: OldCall) -> Value | None:
    """The value of a call on constants, if it is not much larger than they are."""
    places = range(len(call.call.args))
    arrays = [call.constant(place) for place in places]
    known, dims = [array for array in arrays if array is not None], dims_of(call.type)
    if len(known) < len(arrays) or dims is None:
        return None
    if prod(dims) > max(SMALL, *(array.size for array in known)):
        return None
    with np.errstate(all="ignore"):
        made = np.asarray(function(*known))
    return made.astype(str(call.type.dtype.dtype), copy=False).reshape(dims)


def _same_elements(call: OldCall, made: Callable[[Array, list[int]], Array]) -> Value | None:
    """
    An operator that only moves or repeats elements: its value on a constant, if that is not too
    large; its operand, if that has the same shape.
    """
    dims = dims_of(call.type)
    if not call.has_leaves(0) or dims is None:
        return None
    if dims == dims_of(call.type_of(0)):
        return passed_on(call)
    array = call.constant(0)
    fits = array is not None and prod(dims) <= max(array.size, SMALL)
    return made(array, dims) if array is not None and fits else None


def reshape(call: OldCall) -> Value | None:
    return _same_elements(call, lambda array, dims: array.reshape(dims))


def broadcast_to(call: OldCall) -> Value | None:
    return _same_elements(call, lambda array, dims: np.broadcast_to(array, dims).copy())


def permute_dims(call: OldCall) -> Value | None:
    rank, given = call.type.ndim, call.attrs.axes
    axes = list(range(rank))[::-1] if given is None else [int(axis) % rank for axis in given]
    if not call.has_leaves(0):
        return None
    if axes == sorted(axes):
        return passed_on(call)
    array = call.constant(0)
    if array is None:
        return None
    return transposed(array) if axes == [1, 0] else np.ascontiguousarray(array.transpose(axes))


def astype(call: OldCall) -> Value | None:
    """A constant of another type. Matrices of bytes stay: a kernel that widens them reads less."""
    if not call.has_leaves(0):
        return None
    if keeps_dtype(call):
        return passed_on(call)
    array, dtype = call.constant(0), str(call.type.dtype.dtype)
    if array is None or not np.can_cast(array.dtype, dtype, "same_kind"):
        return None
    is_wide = array.ndim > 1 and array.itemsize == 1 and dtype == "int32"
    return None if is_wide else array.astype(dtype)


def shape_to_tensor(call: OldCall) -> Value | None:
    shape = call.writer.old.call(call.call.args[0], "shape_of")
    dims = None if shape is None else dims_of(shape.args[0].ty)
    return None if dims is None else np.asarray(dims, np.int64)


def picked(call: OldCall) -> Value | None:
    """A constant picked from a constant."""
    if not call.has_leaves(0, 1) or call.attrs.axis is None:
        return None
    array, index = call.constant(0), call.constant(1)
    if array is None or index is None or array.size > SMALL or dims_of(call.type) is None:
        return None
    axis = int(call.attrs.axis)
    is_inside = ((index >= 0) & (index < array.shape[axis])).all()
    return np.asarray(np.take(array, index, axis)) if is_inside else None


def strided_slice(call: OldCall) -> Value | None:
    """A part of a small constant."""
    array = call.constant(0)
    if array is None or array.size > SMALL:
        return None
    numbers = [_numbers(each) for each in call.call.args[1:]]
    if len(numbers) < 3 or any(each is None for each in numbers):
        return None
    axes, *bounds = (each for each in numbers if each is not None)
    part = [slice(None)] * array.ndim
    for axis, *limits in zip(axes, *bounds, strict=True):
        part[axis] = slice(*limits)
    return array[tuple(part)].copy()


def _numbers(expr: Any) -> list[int] | None:
    """The numbers of a literal tuple, none of which counts from the end."""
    fields = expr.fields if isinstance(expr, tvm.ir.Tuple) else [None]
    values = [each.value for each in fields if isinstance(each, tirx.IntImm) and each.value >= 0]
    return [int(value) for value in values] if len(values) == len(fields) else None


FOLDED: Mapping[str, Callable[..., Any]] = {
    "add": np.add,
    "equal": np.equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "isnan": np.isnan,
    "less": np.less,
    "less_equal": np.less_equal,
    "logical_not": np.logical_not,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "negative": np.negative,
    "subtract": np.subtract,
    "where": np.where,
}
