"""Infer the types of operators that gather, repeat and rearrange elements."""

from collage_dsl.graph import Dim, TensorType, TupleType, Type
from collage_dsl.language.inference.shapes import (
    UNKNOWN_DIM,
    Call,
    MismatchError,
    Shape,
    axis_in,
    broadcast,
    check_dtypes,
    closed,
    is_no_multiple,
    like_first,
    listed,
    product,
    result,
    times,
    unknown,
)


def tiling(call: Call) -> Type:
    """The shorter one of the shape and `repeats` is filled up with ones, from the front."""
    shape, repeats = call.shape(), call.ints("repeats")
    if shape is None or repeats is None:
        return unknown(call)
    rank = max(len(shape), len(repeats))
    dims = (1,) * (rank - len(shape)) + shape
    counts = (1,) * (rank - len(repeats)) + repeats
    return result(call, tuple(map(times, dims, counts)))


def repeating(call: Call) -> Type:
    shape, axis, count = call.shape(), call.whole("axis"), call.whole("repeats")
    if shape is None or count is None:
        return unknown(call)
    if axis is None:
        return result(call, (product((*shape, count)),))
    at = axis_in(axis, len(shape))
    return result(call, _with(shape, at, times(shape[at], count)))


def gathering_from_workers(call: Call) -> Type:
    """The tensors of all workers, one after the other along the first axis."""
    shape, count = call.shape(), call.whole("num_workers")
    if shape is None or count is None:
        return unknown(call)
    return result(call, _with(shape, 0, times(shape[0], count)))


def scattering_to_workers(call: Call) -> Type:
    """One of `num_workers` equal parts along an axis, which TVM counts from the front."""
    shape, count, axis = call.shape(), call.whole("num_workers"), call.whole("axis")
    if shape is None or count is None or axis is None:
        return unknown(call)
    if axis < 0 or is_no_multiple(shape[axis], count):
        raise MismatchError(f"axis {axis} of {listed(shape)} has no {count} equal parts")
    return result(call, _with(shape, axis, _parts(shape[axis], count)))


def _parts(dim: Dim, number: int) -> Dim:
    """The dimension of one of `number` equal parts."""
    if isinstance(dim, int):
        return dim // number
    return dim if dim == UNKNOWN_DIM or number == 1 else f"{closed(dim)} // {number}"


def _with(shape: Shape, at: int, dim: Dim) -> Shape:
    return (*shape[:at], dim, *shape[at + 1 :])


def finding_largest(call: Call) -> Type:
    """The `k` largest or smallest, their places, or both; all of them where `k` is below 1."""
    shape, count, sort = call.shape(), call.whole("k"), call.text("ret_type")
    tensor = call.tensor()
    if shape is not None and count is not None:
        at = axis_in(call.whole("axis") or 0, len(shape))
        dim = shape[at]
        least: Dim = min(count, dim) if isinstance(dim, int) else UNKNOWN_DIM
        shape = _with(shape, at, least) if count > 0 else shape
    values = TensorType(tensor.dtype if tensor else "unknown", shape)
    places = TensorType(call.text("dtype") or values.dtype, shape)
    both: dict[str, Type] = {"values": values, "indices": places}
    return both.get(sort) or TupleType((values, places))


def finding_distinct(call: Call) -> Type:
    """
    `unique`: the values, and a list of places or counts for each flag that is set. Without an axis,
    the values are a list too. How many there are is not known, unless there is one.
    """
    flags, axis, shape = call.values[2:5], call.values[5:], call.shape()
    found: Shape | None = (1,) if shape == () else (UNKNOWN_DIM,)
    lists = (TensorType("int64", found),) * sum(map(bool, flags))
    if axis:
        for at in axis if shape is not None else ():
            axis_in(at if isinstance(at, int) else 0, len(shape or ()))
        found = None if shape is None else (UNKNOWN_DIM,) * len(shape)
    if None in flags:
        return unknown(call)
    return TupleType((result(call, found), *lists)) if lists else result(call, found)


def drawing(call: Call) -> Type:
    """`multinomial_from_uniform`: as many samples as numbers that are drawn."""
    drawn, places = call.shape(1), call.shape(2)
    for shape in (call.shape(), drawn, places):
        if shape is not None and len(shape) != 2:
            raise MismatchError(f"a matrix is taken, which has 2 dimensions, not {len(shape)}")
    for shape in (drawn, places):
        if shape is not None:
            call.agree(shape[1], 1, f"a sample has 1 column, not {shape[1]}")
    if drawn is not None and places is not None:
        call.agree(drawn[0], places[0], f"{drawn[0]} numbers and {places[0]} indices differ")
    return result(call, places)


def pixel_shuffle(call: Call) -> Type:
    shape, factor = call.shape(), call.whole("upscale_factor")
    if shape is None or factor is None:
        return unknown(call)
    if len(shape) < 3:
        raise MismatchError("pixels are shuffled in at least 3 dimensions")
    *rest, channels, height, width = shape
    if factor < 1 or is_no_multiple(channels, factor**2):
        raise MismatchError(f"{channels} channels are no multiple of {factor**2}")
    left = _parts(channels, factor**2)
    return result(call, (*rest, left, times(height, factor), times(width, factor)))


def gathering_elements(call: Call) -> Type:
    shape, places = call.shape(0), call.shape(1)
    if shape is not None and places is not None:
        axis_in(call.whole("axis") or 0, len(shape))
        if len(shape) != len(places):
            raise MismatchError(
                f"{len(places)} dimensions of indices do not fit {len(shape)} of data"
            )
    return result(call, places)


def gathering_slices(call: Call) -> Type:
    """Each row of the last dimension of the indices is the place of a slice."""
    shape, places = call.shape(0), call.shape(1)
    if shape is None or not places or not isinstance(places[-1], int):
        return unknown(call)
    is_too_many = places[-1] > len(shape)
    batch = 0 if is_too_many else call.whole("batch_dims") or 0
    if places[-1] + batch > len(shape):
        left = f"{len(shape) - batch} dimensions{' beside the batches' if batch else ''}"
        raise MismatchError(f"{places[-1]} indices do not fit {left}")
    return result(call, (*places[:-1], *shape[batch + places[-1] :]))


def picking_places(call: Call) -> Type:
    """
    There is a tensor of indices for each of the first dimensions. What they are broadcast to stands
    in the place of these.
    """
    shape, indices = call.shape(), _indices(call)
    if shape is None or indices is None:
        return unknown(call)
    if len(indices) > len(shape):
        message = f"{len(indices)} tensors of indices do not fit {len(shape)} dimensions"
        raise MismatchError(message)
    places = None if None in indices else broadcast(indices)
    return result(call, None if places is None else (*places, *shape[len(indices) :]))


def filling_places(call: Call) -> Type:
    """
    There is a tensor of indices for each dimension. TVM reads the values one after the other, and
    other programs broadcast them; in both, fewer do not fit.
    """
    shape, indices = call.shape(), _indices(call)
    if shape is not None and indices is not None and len(indices) != len(shape):
        message = f"{len(indices)} tensors of indices do not fit {len(shape)} dimensions"
        raise MismatchError(message)
    known = [each for each in indices or () if each is not None]
    if () in known:
        raise MismatchError("a tensor of indices has 1 dimension at least")
    places, values = broadcast([*known]), call.shape(2)
    if places is not None and values is not None and len(known) == len(indices or ()):
        _check_values(values, places)
    return like_first(call)


def _check_values(values: Shape, places: Shape) -> None:
    given, needed = product(values), product(places)
    if isinstance(given, int) and isinstance(needed, int) and given < needed:
        pairs = zip(reversed(values), reversed(places), strict=False)
        if len(values) > len(places) or any(dim != 1 and dim != whole for dim, whole in pairs):
            raise MismatchError(f"{given} values do not fit {needed} places")


def _indices(call: Call) -> list[Shape | None] | None:
    """The shapes of tensors of indices; None if they are no written tuple."""
    match call.types[1]:
        case TupleType(fields):
            return [each.shape if isinstance(each, TensorType) else None for each in fields]
        case _:
            return None


def meshing(call: Call) -> Type:
    if not isinstance(call.types[0], TupleType):
        return unknown(call)
    check_dtypes(call.types)
    shapes = [each.shape for each in call.types[0].fields if isinstance(each, TensorType)]
    known = [shape for shape in shapes if shape is not None]
    if any(len(shape) != 1 for shape in known):
        raise MismatchError("a mesh is made of tensors of one dimension")
    dims = tuple(shape[0] for shape in known)
    grid = result(call, dims if len(known) == len(shapes) else None)
    return TupleType((grid,) * len(shapes))
