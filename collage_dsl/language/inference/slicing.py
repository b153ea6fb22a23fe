"""Infer the types of operators that cut tensors along axes, or replace what is cut out."""

from itertools import pairwise

from collage_dsl.graph import Dim, TupleType, Type
from collage_dsl.language.inference.shapes import (
    UNKNOWN_DIM,
    Call,
    MismatchError,
    axes_in,
    axis_in,
    check_dtypes,
    closed,
    like_first,
    plus,
    result,
    times,
    unknown,
)

MOST_PARTS = 10_000
"""The most parts that a value may be split into."""


def slicing(call: Call) -> Type:
    shape, lists = call.shape(), [_whole_numbers(value) for value in call.values[1:]]
    steps = lists[3] if len(lists) > 3 else (1,) * len(lists[0] or ())
    axes, begins, ends = lists[:3]
    if shape is None or axes is None or begins is None or ends is None or steps is None:
        return unknown(call)
    if not len(axes) == len(begins) == len(ends) == len(steps):
        raise MismatchError("a slice has a begin, an end and a step for each axis")
    dims = list(shape)
    is_inbound = bool(call.attrs.get("assume_inbound"))
    for at, *bounds in zip(axes_in(axes, len(shape)), begins, ends, steps, strict=True):
        dims[at] = cut_length(shape[at], *bounds, is_inbound=is_inbound)
    return result(call, tuple(dims))


def _whole_numbers(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, tuple) or not all(isinstance(item, int) for item in value):
        return None
    return value


def cut_length(dim: Dim, begin: int, end: int, step: int, *, is_inbound: bool) -> Dim:
    """With `assume_inbound`, TVM does not look at the dimension, nor for bounds below 0."""
    if step == 0:
        raise MismatchError("a slice with steps of 0 takes no elements")
    if is_inbound:
        length = (end - begin + step - 1) // step
    elif isinstance(dim, int):
        first, last = (_within(bound, dim, step) for bound in (begin, end))
        length = -((first - last) // step)
    else:
        return UNKNOWN_DIM
    if length < 0:
        raise MismatchError(f"the slice ends at {end}, before its begin {begin}")
    return length


def _within(bound: int, dim: int, step: int) -> int:
    """A bound counted from the start, at most one step outside of the dimension."""
    lowest = 0 if step > 0 else -1
    return max(lowest, min(bound + dim if bound < 0 else bound, dim + lowest))


def dynamic_slicing(call: Call) -> Type:
    """The bounds are tensors, with a number for each dimension of the first operand."""
    shape = call.shape()
    for name, at in (("begin", 1), ("end", 2), ("strides", 3)):
        given = call.shape(at)
        if given is not None:
            if len(given) != 1:
                raise MismatchError(f"`{name}` has 1 dimension, not {len(given)}")
            if shape is not None:
                said = f"{given[0]} numbers in `{name}` do not fit {len(shape)} dimensions"
                call.agree(given[0], len(shape), said)
    return result(call, None if shape is None else (UNKNOWN_DIM,) * len(shape))


def scattering_slice(call: Call) -> Type:
    """The second operand has the shape of a slice of the first one; its bounds are not clipped."""
    check_dtypes(call.types[:2])
    shape, given = call.shape(), call.shape(1)
    length = slice_length(*call.values[2:5])
    if shape is not None and given is not None:
        if len(shape) != len(given):
            raise MismatchError(f"{len(given)} dimensions do not fit a slice of {len(shape)}")
        at = axis_in(call.whole("axis") or 0, len(shape))
        wanted = (*shape[:at], length, *shape[at + 1 :])
        call.agree_all(given, wanted, "the shape is not that of the slice")
    return like_first(call)


def slice_length(start: object, end: object, step: object) -> Dim:
    """How many elements a slice has whose bounds are in the dimension."""
    if isinstance(step, int) and step < 1:
        raise MismatchError(f"a slice that is replaced does not go by {step}")
    if not isinstance(start, int) or not isinstance(end, int):
        return UNKNOWN_DIM
    if end < start:
        raise MismatchError(f"the slice ends at {end}, before its start {start}")
    return -((start - end) // step) if isinstance(step, int) else UNKNOWN_DIM


def splitting(call: Call) -> Type:
    shape = call.shape()
    if shape is None:
        found = [unknown(call) for _ in _section_sizes(call, UNKNOWN_DIM)]
    else:
        at = axis_in(call.whole("axis") or 0, len(shape))
        sizes = _section_sizes(call, shape[at])
        found = [result(call, (*shape[:at], size, *shape[at + 1 :])) for size in sizes]
    return found[0] if len(found) == 1 else TupleType(tuple(found))


def _section_sizes(call: Call, dim: Dim) -> list[Dim]:
    cuts, count = call.ints("indices_or_sections"), call.whole("indices_or_sections")
    if cuts is None:
        raise MismatchError("where to split is not said")
    return _cut(dim, cuts) if count is None else _parts(dim, count)


def _parts(dim: Dim, count: int) -> list[Dim]:
    """Parts as long as the first one, of which the last may be shorter."""
    if not 0 < count <= MOST_PARTS:
        raise MismatchError(f"a dimension of {dim} cannot be split into {count} parts")
    if count == 1 or dim == UNKNOWN_DIM:
        return [dim] * count
    if isinstance(dim, str):
        size = f"({plus(dim, count - 1)}) // {count}"
        return [*[size] * (count - 1), f"{closed(dim)} - ({times(size, count - 1)})"]
    length = -(-dim // count)
    last = dim - length * (count - 1)
    if last < 0:
        raise MismatchError(f"a dimension of {dim} cannot be split into {count} parts")
    return [*[length] * (count - 1), last]


def _cut(dim: Dim, cuts: tuple[int, ...]) -> list[Dim]:
    if not isinstance(dim, int):
        return [UNKNOWN_DIM] * (len(cuts) + 1)
    ends = [max(0, min(end, dim)) for end in (0, *cuts, dim)]
    return [max(0, end - begin) for begin, end in pairwise(ends)]
