"""What the elements of a tensor may be, by its dtype: their numbers, and how wide they are."""

from functools import lru_cache
from math import inf, isinf

from collage_dsl.graph.floats import FORMATS, has_infinity, rounded
from collage_dsl.graph.types import bits_of, long_dtype, whole_range
from collage_dsl.language.reasoning.values.domain import Number, Values, between
from collage_dsl.rules.condition import Value


def elements(values: Values, dtypes: frozenset[Value] | None) -> Values:
    """Those of `values` that are elements of one of some dtypes; None stands for any dtype."""
    if not dtypes:
        return values
    numbers, is_infinite = _of_dtypes(dtypes)
    if not is_infinite:
        return values.meet(numbers)
    least = -inf if -inf in values else numbers.least
    most = inf if inf in values else numbers.most
    return values.meet(between(least, most))


@lru_cache(1024)
def _of_dtypes(dtypes: frozenset[Value]) -> tuple[Values, bool]:
    """The finite numbers of some dtypes, and whether infinite ones are elements too."""
    known = [long_of(dtype) for dtype in dtypes]
    lows, highs = zip(*map(_range, known), strict=True)
    numbers = between(min(lows), max(highs), whole=all(map(whole_range, known)))
    return numbers, any(map(has_infinity, known))


def rounding(value: float, dtypes: frozenset[Value] | None) -> float:
    """By how much `value` changes at most as an element of one of some dtypes; None for any."""
    if isinf(value):
        return 0.0
    known = FORMATS if dtypes is None else map(long_of, dtypes)
    return max((abs(rounded(value, dtype) - value) for dtype in known), default=0.0)


def long_of(dtype: Value) -> str:
    """The name of TVM for a dtype; the name itself if it is none that is known."""
    return long_dtype(str(dtype)) or str(dtype)


def _range(dtype: str) -> tuple[Number, Number]:
    """The least and the greatest finite element; infinite where a dtype is not known."""
    if dtype in FORMATS:
        return -FORMATS[dtype].largest, FORMATS[dtype].largest
    return whole_range(dtype) or (-inf, inf)


WIDTHS = frozenset({1, 2, 4, 6, 8, 16, 32, 64, 128})
"""The bits of an element of any dtype that a model may have."""


def widths_of(dtypes: Values) -> frozenset[int]:
    """The numbers of bits that an element may have; empty if one is not known."""
    if dtypes.allowed is None:
        return WIDTHS
    left = (str(dtype) for dtype in dtypes.allowed if dtype in dtypes)
    widths = [bits_of(long_dtype(dtype) or "") for dtype in left]
    return frozenset(w for w in widths if w) if None not in widths else frozenset()
