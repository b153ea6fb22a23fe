"""Infer the types of operators that move, join and pad elements, or give a value another shape."""

from collage_dsl.graph import Dim, TensorType, TupleType, Type
from collage_dsl.graph.types import tensors
from collage_dsl.language.inference.shapes import (
    UNKNOWN_DIM,
    Call,
    MismatchError,
    Shape,
    are_different,
    axes_in,
    axis_in,
    broadcast,
    check_dtypes,
    dtype_of,
    like_first,
    listed,
    more_exact,
    plus,
    product,
    result,
    total,
    unknown,
)


def reshape(call: Call) -> Type:
    wanted, data = call.values[1], call.tensor()
    if not isinstance(wanted, tuple):
        return unknown(call)
    if wanted.count(-1) > 1:
        raise MismatchError("one dimension of a shape at most is left open")
    if any(isinstance(dim, int) and dim < -1 for dim in wanted):
        raise MismatchError(f"the shape {listed(wanted)} has a dimension below 0")
    size, given = (data.size, data.shape) if data else (None, None)
    kept = tuple(_kept(given, at) if dim == 0 else dim for at, dim in enumerate(wanted))
    shape = tuple(_what_is_left(size, kept) if dim == -1 else dim for dim in kept)
    result = TensorType(dtype_of(call), shape)
    if size is not None and result.size not in (None, size):
        raise MismatchError(f"{size} elements cannot have the shape {listed(wanted)}")
    return result


def _kept(shape: Shape | None, at: int) -> Dim:
    """The dimension of the result of a reshape that is written as 0."""
    if shape is None:
        return UNKNOWN_DIM
    if at >= len(shape):
        raise MismatchError(f"there is no dimension {at} to keep")
    return shape[at]


def _what_is_left(size: int | None, wanted: Shape) -> Dim:
    """The dimension of the result of a reshape that is written as -1."""
    given = product(tuple(dim for dim in wanted if dim != -1))
    return size // given if size is not None and isinstance(given, int) else UNKNOWN_DIM


def summed_to(call: Call) -> Type:
    """The second operand is the shape of the result, or a tensor that has this shape."""
    shape, wanted = call.shape(), call.values[1]
    if not isinstance(wanted, tuple):
        wanted = call.shape(1)
    if shape is not None and wanted is not None:
        # TVM does not ask what is before these dimensions.
        last = wanted[max(len(wanted) - len(shape), 0) :]
        if not _broadcasts_to(last, shape):
            raise MismatchError(f"{listed(shape)} cannot be summed to {listed(wanted)}")
    return result(call, wanted)


def broadcast_to(call: Call) -> Type:
    shape, wanted = call.shape(), call.values[1]
    if not isinstance(wanted, tuple):
        return unknown(call)
    if shape is not None and not _broadcasts_to(shape, wanted):
        raise MismatchError(f"{listed(shape)} cannot be broadcast to {listed(wanted)}")
    return result(call, wanted)


def _broadcasts_to(shape: Shape, wanted: Shape) -> bool:
    """Whether `shape` may broadcast to `wanted`. Raises `MismatchError` if nothing has both."""
    return not are_different(broadcast([shape, wanted]) or (), wanted)


def permute_dims(call: Call) -> Type:
    shape, axes = call.shape(), call.ints("axes")
    if shape is None:
        return unknown(call)
    if axes is None:
        axes = tuple(reversed(range(len(shape))))
    if len(axes) != len(shape):
        raise MismatchError(f"axes {list(axes)} are no order of {len(shape)} dimensions")
    return result(call, tuple(shape[at] for at in axes_in(axes, len(shape))))


def joining(call: Call) -> Type:
    shapes, axis = _field_shapes(call), call.whole("axis")
    known = [shape for shape in shapes if shape is not None]
    if not known or len(known) < len(shapes):
        return unknown(call)
    if axis is None and any(len(shape) != 1 for shape in known):
        raise MismatchError("without an axis, only tensors of one dimension are joined")
    return result(call, joined_along(call, known, axis or 0))


def joined_along(call: Call, shapes: list[Shape], axis: int) -> Shape:
    """The shape of tensors that are joined along an axis."""
    at = axis_in(axis, len(shapes[0]))
    rest = _alike(call, [_without(shape, at) for shape in shapes], "beside the axis, ")
    return (*rest[:at], total(shape[at] for shape in shapes), *rest[at:])


def stacking(call: Call) -> Type:
    shapes = _field_shapes(call)
    known = [shape for shape in shapes if shape is not None]
    if not known:
        return unknown(call)
    shape = _alike(call, known)
    at = axis_in(call.whole("axis") or 0, len(shape) + 1)
    return result(call, (*shape[:at], len(shapes), *shape[at:]))


def _field_shapes(call: Call) -> list[Shape | None]:
    if not isinstance(call.types[0], TupleType):
        raise MismatchError("the operand is to be a tuple of tensors")
    check_dtypes(call.types)
    return [tensor.shape for tensor in tensors(call.types[0])]


def _alike(call: Call, shapes: list[Shape], where: str = "") -> Shape:
    """The most exact description of one shape, dimension by dimension; `where` begins a message."""
    found = shapes[0]
    for shape in shapes[1:]:
        call.agree_all(found, shape, f"{where}{listed(found)} and {listed(shape)} differ")
        found = tuple(map(more_exact, found, shape))
    return found


def flatten(call: Call) -> Type:
    shape = call.shape()
    if shape is None:
        return unknown(call)
    return result(call, (product(shape),))


def batch_flatten(call: Call) -> Type:
    shape = call.shape()
    if shape is None:
        return unknown(call)
    if len(shape) < 2:
        raise MismatchError("there is nothing to flatten after the first dimension")
    return result(call, (shape[0], product(shape[1:])))


def expand_dims(call: Call) -> Type:
    shape, new = call.shape(), call.ints("axis")
    if shape is None or new is None:
        return unknown(call)
    rank = len(shape) + len(new)
    axes = axes_in(new, rank)
    rest = iter(shape)
    return result(call, tuple(1 if at in axes else next(rest) for at in range(rank)))


def squeeze(call: Call) -> Type:
    shape, named = call.shape(), call.ints("axis")
    if shape is None or (named is None and any(isinstance(dim, str) for dim in shape)):
        return unknown(call)
    axes = range(len(shape)) if named is None else axes_in(named, len(shape))
    gone = {at for at in axes if shape[at] == 1 or isinstance(shape[at], str)}
    return result(call, tuple(dim for at, dim in enumerate(shape) if at not in gone))


def taking(call: Call) -> Type:
    shape, indices, axis = call.shape(0), call.shape(1), call.whole("axis")
    if shape is None or indices is None:
        return unknown(call)
    if axis is None and len(shape) != 1:
        raise MismatchError("without an axis, elements of one dimension only are taken")
    at = axis_in(axis or 0, len(shape))
    return result(call, (*shape[:at], *indices, *shape[at + 1 :]))


def padding(call: Call) -> Type:
    shape, widths = call.shape(), call.ints("pad_width") or ()
    if shape is None:
        return unknown(call)
    if len(widths) != 2 * len(shape):
        raise MismatchError(
            f"{len(shape)} dimensions take {2 * len(shape)} widths, not {len(widths)}"
        )
    each = zip(shape, widths[::2], widths[1::2], strict=True)
    return result(call, tuple(_longer(dim, before + after) for dim, before, after in each))


def _longer(dim: Dim, number: int) -> Dim:
    return dim + number if isinstance(dim, int) else plus(dim, number)


def triangle(call: Call) -> Type:
    shape = call.shape()
    if shape is not None and len(shape) < 2:
        raise MismatchError("a triangle has two dimensions")
    return like_first(call)


def _without(shape: Shape, at: int) -> Shape:
    return (*shape[:at], *shape[at + 1 :])
