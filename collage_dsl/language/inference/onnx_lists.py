"""Infer the types of operators of ONNX that take lists of lengths, of sizes, or of places."""

from itertools import pairwise

from collage_dsl.graph import Type
from collage_dsl.language.inference.shapes import (
    Call,
    MismatchError,
    axis_in,
    result,
    times,
    unknown,
)


def reversing(call: Call) -> Type:
    """There is a length for each place along the batch."""
    shape, lengths, batch = call.shape(0), call.shape(1), call.known_whole("batch_axis")
    if shape and lengths and batch is not None:
        along = shape[axis_in(batch, len(shape))]
        call.agree(lengths[0], along, f"{lengths[0]} lengths do not fit a batch of {along}")
    return result(call, shape)


def padding_sizes(call: Call) -> Type:
    """The sizes at the beginning and the end of each dimension, or of those that `axes` names."""
    shape, sizes = call.shape(0), call.shape(1)
    count = len(call.types)
    if shape is not None and sizes is not None and len(sizes) == 1 and count in (2, 4):
        axes = call.shape(3) if count == 4 else (len(shape),)
        if axes is not None and len(axes) == 1:
            needed = times(axes[0], 2)
            message = f"{sizes[0]} sizes of padding do not fit, {needed} are needed"
            call.agree(sizes[0], needed, message)
    return unknown(call)


def slicing(call: Call) -> Type:
    """Where each slice begins and ends, and along which axis it goes, are lists of one length."""
    shape = call.shape()
    lists = [each for each in (call.shape(at) for at in range(1, len(call.types))) if each]
    for one, other in pairwise(lists):
        call.agree(one[0], other[0], f"lists of {one[0]} and {other[0]} numbers differ")
    for each in lists:
        if shape is not None and isinstance(each[0], int) and each[0] > len(shape):
            raise MismatchError(f"{each[0]} slices do not fit {len(shape)} dimensions")
    return unknown(call)


def resizing(call: Call) -> Type:
    """The last operand is a list of factors or of sizes, for each dimension or for some."""
    shape, last = call.shape(), call.shape(len(call.types) - 1)
    if len(call.types) < 2 or shape is None or last is None or len(last) != 1:
        return unknown(call)
    if isinstance(last[0], int) and last[0] > len(shape):
        raise MismatchError(f"a list of {last[0]} numbers does not fit {len(shape)} dimensions")
    return unknown(call)


def updating(call: Call) -> Type:
    """An update is at most as long as the cache, whose other dimensions it has."""
    cache, update, axis = call.shape(0), call.shape(1), call.known_whole("axis")
    if cache is None or update is None or axis is None or len(cache) != len(update):
        return result(call, cache)
    along = axis_in(axis, len(cache))
    for at, (most, dim) in enumerate(zip(cache, update, strict=True)):
        message = f"an update of {dim} does not fit a cache of {most} in dimension {at}"
        if at != along:
            call.agree(most, dim, message)
        elif isinstance(dim, int) and isinstance(most, int) and dim > most:
            raise MismatchError(message)
    return result(call, cache)
