"""Choose types of tensors: a dtype, a rank, and the dimensions, one after the other."""

from collections.abc import Iterator

from collage_dsl.graph import TensorType
from collage_dsl.graph.types import long_dtype
from collage_dsl.rules.condition import DimAt, Dtype, Rank
from collage_dsl.witness.state import State
from collage_dsl.witness.values import dims, dtypes, ranks

_MOST_DTYPES, _MOST_RANKS, _MOST_SHAPES = 4, 5, 5


def tensors(
    state: State, name: str, *, is_small: bool = False
) -> Iterator[tuple[State, TensorType]]:
    """
    Some types of tensors that the value `name` can have. There are few of each kind, because more
    of the same seldom help where one does not: it is better to begin anew with others.
    """
    for dtype in dtypes(state, name)[:_MOST_DTYPES]:
        with_dtype = state.assuming(Dtype(name), dtype)
        if with_dtype is not None:
            for after, shape in shapes(with_dtype, name, is_small=is_small):
                yield after, TensorType(long_dtype(str(dtype)) or "unknown", shape)


def shapes(
    state: State, name: str, *, is_small: bool = False
) -> Iterator[tuple[State, tuple[int, ...]]]:
    """Some shapes that the value `name` can have, with few ranks first if it `is_small`."""
    found = ranks(state, name)
    for rank in (sorted(found, key=str) if is_small else found)[:_MOST_RANKS]:
        with_rank = state.assuming(Rank(name), rank)
        if with_rank is not None and isinstance(rank, int):
            yield from _of_rank(with_rank, name, rank)


def _of_rank(state: State, name: str, rank: int) -> Iterator[tuple[State, tuple[int, ...]]]:
    """Some shapes: of each axis the first dimension that is possible, then of each the second."""
    seen: set[tuple[int, ...]] = set()
    for number in range(_MOST_SHAPES):
        after: State | None = state
        shape: dict[int, int] = {}
        while after is not None and len(shape) < rank:
            open_ = [DimAt(name, axis) for axis in range(rank) if axis not in shape]
            after = _longer(after, min(open_, key=after.room), shape, number)
        found = tuple(shape[axis] for axis in sorted(shape))
        if after is not None and found not in seen:
            seen.add(found)
            yield after, found


def _longer(state: State, axis: DimAt, shape: dict[int, int], number: int) -> State | None:
    """The state in which `shape` has one more dimension; None if there is none."""
    found = dims(state, axis)
    start = number % len(found) if found else 0
    for dim in (*found[start:], *found[:start]):
        after = state.assuming(axis, dim)
        if after is not None and isinstance(dim, int):
            shape[axis.axis] = dim
            return after
    return None
