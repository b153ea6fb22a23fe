"""Infer the types of operators that make tensors of numbers, or of one number."""

from collage_dsl.graph import Dim, OpaqueType, Type
from collage_dsl.graph.types import bits_of
from collage_dsl.language.inference.shapes import (
    UNKNOWN_DIM,
    Call,
    MismatchError,
    Shape,
    axis_in,
    differ,
    like_first,
    result,
)


def of_shape(call: Call) -> Type:
    """The first operand is the shape of the result."""
    wanted = call.values[0]
    if call.shape(1):
        raise MismatchError("the value to fill with is to be a scalar")
    return result(call, wanted if isinstance(wanted, tuple) else None)


def full_like(call: Call) -> Type:
    if call.shape(1):
        raise MismatchError("the value to fill with is to be a scalar")
    return like_first(call)


def eye_matrix(call: Call) -> Type:
    return result(call, (_number(call.values[0]), _number(call.values[1])))


def eye_like(call: Call) -> Type:
    shape = call.shape()
    if shape is not None and len(shape) != 2:
        raise MismatchError("a matrix has two dimensions")
    return like_first(call)


def _number(value: object) -> Dim:
    return value if isinstance(value, int) else UNKNOWN_DIM


def counting(call: Call) -> Type:
    """
    `arange`. The length is known if start, end and step are whole numbers. With steps below 0, TVM
    gives more elements than there are, unless the numbers are written as floats.
    """
    start, end, step = call.values
    if step == 0:
        raise MismatchError("numbers that do not grow lead nowhere")
    if not isinstance(start, int) or not isinstance(end, int) or not isinstance(step, int):
        return result(call, (UNKNOWN_DIM,))
    length, exact = (end - start + step - 1) // step, -((start - end) // step)
    if max(length, exact) < 0:
        raise MismatchError(f"steps of {step} do not lead from {start} to {end}")
    is_literal = isinstance(call.types[0], OpaqueType)
    return result(call, (length if is_literal or length == exact else UNKNOWN_DIM,))


def window(call: Call) -> Type:
    return result(call, (_number(call.values[0]),))


def one_hot(call: Call) -> Type:
    """The dtype is that of the second operand, which is a number."""
    value = call.types[1]
    dtype = value.what if isinstance(value, OpaqueType) and bits_of(value.what) else "unknown"
    shape, depth = call.shape(), call.whole("depth")
    if depth is not None and depth < 0:
        raise MismatchError(f"a dimension is not {depth}")
    if shape is None:
        return result(call, None, dtype)
    at = axis_in(call.whole("axis") or 0, len(shape) + 1)
    return result(call, (*shape[:at], UNKNOWN_DIM if depth is None else depth, *shape[at:]), dtype)


def affine_grid(call: Call) -> Type:
    """The first operand has a matrix for each image, with a row for each axis of the size."""
    shape, size = call.shape(), call.values[1]
    if shape is not None and len(shape) != 3:
        raise MismatchError(f"matrices have 3 dimensions with the batch, not {len(shape)}")
    if shape is not None and not any(_is_matrix(shape, axes) for axes in (2, 3)):
        raise MismatchError("each matrix is 2 by 3, for images, or 3 by 4, for volumes")
    if not isinstance(size, tuple):
        return result(call, None)
    if len(size) not in (2, 3):
        raise MismatchError(f"a grid has 2 or 3 axes, not {len(size)}")
    batch: Dim = UNKNOWN_DIM
    if shape is not None:
        batch, rows, columns = shape
        said = f"a grid of {len(size)} axes takes matrices of {len(size)} by {len(size) + 1}"
        call.agree(rows, len(size), said)
        call.agree(columns, len(size) + 1, said)
    return result(call, (batch, len(size), *size))


def _is_matrix(shape: Shape, axes: int) -> bool:
    """Whether matrices may have a row for each of the `axes`, and a column more."""
    return not differ(shape[1], axes) and not differ(shape[2], axes + 1)
