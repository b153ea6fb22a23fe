"""Choose dtypes, ranks, dimensions and numbers among the values that facts allow."""

from collections.abc import Iterable
from math import inf

from collage_dsl.graph.types import dtype_names
from collage_dsl.language.reasoning.values.domain import Values, is_infinite
from collage_dsl.rules.condition import DimAt, Dtype, Rank, Value
from collage_dsl.witness.state import State

_DTYPES = ("f32", "i64", "bool", "f16", "i32", "i8", "u8")
_RANKS = (2, 4, 1, 3, 0, 5, 6)
_DIMS = (4, 8, 1, 6, 2, 16, 3, 64, 32, 5, 128)
_MOST_DIM = 1 << 40


def dtypes(state: State, name: str) -> list[Value]:
    values = state.facts.of(Dtype(name))
    every: list[Value] = [*_DTYPES, *dtype_names()]
    return state.ordered([dtype for dtype in dict.fromkeys(every) if dtype in values])


def ranks(state: State, name: str) -> list[Value]:
    return state.ordered(_whole(state, state.facts.of(Rank(name)), _RANKS, 0, 12))


def dims(state: State, axis: DimAt) -> list[Value]:
    empty = (0,) if state.is_empty_allowed else ()
    values = state.facts.of(axis)
    return state.ordered(_whole(state, values, (*_DIMS, *empty), 1 - len(empty), _MOST_DIM))


def _whole(
    state: State, values: Values, usual: Iterable[int], least: int, most: int
) -> list[Value]:
    named = [n for n in state.numbers if isinstance(n, int) and not isinstance(n, bool)]
    near = [n + d for n in named for d in (0, 1, -1)]
    found = [*usual, *near] if len(values.allowed or ()) != 1 else []
    return [n for n in some_of(values, found) if isinstance(n, int) and least <= n <= most]


def some_of(values: Values, usual: Iterable[Value]) -> list[Value]:
    """The `usual` ones among `values`; then those at the ends, or all if there are few."""
    if values.allowed is not None:
        listed = [value for value in values.allowed if value in values]
        first = [value for value in usual if value in listed]
        return [*first, *sorted((v for v in listed if v not in first), key=str)]
    found = [value for value in usual if value in values]
    low, high = values.whole_bounds()
    step = values.modulus
    if low != -inf:
        found += [int(low) + step * n for n in range(4)]
    elif not is_infinite(high):
        found += [int(high) - step * n for n in range(4)]
    elif step > 1:
        found += [values.rest + step * n for n in range(1, 4)]
    if not is_infinite(high):
        found.append(int(high))
    if not values.whole and not is_infinite(values.least) and not is_infinite(values.most):
        found.append((values.least + values.most) / 2)
    if not values.whole:
        ends = [end for end in (values.least, values.most) if not is_infinite(end)]
        found += [*ends, *(end + d for end in ends for d in (0.5, -0.5))]
    return [value for value in dict.fromkeys(found) if value in values]
