"""The numbers that the elements of a constant may be, by its dtype."""

from functools import lru_cache
from math import inf, isinf

from collage_dsl.graph.floats import FORMATS, has_infinity, rounded
from collage_dsl.graph.types import long_dtype, whole_range
from collage_dsl.language.reasoning.domain import ANYTHING, Number, Values, between
from collage_dsl.rules.condition import Value


@lru_cache(1024)
def of_dtypes(dtypes: frozenset[Value] | None) -> Values:
    """The numbers that are elements of one of some dtypes; None stands for any dtype."""
    if not dtypes:
        return ANYTHING
    known = [_long(dtype) for dtype in dtypes]
    lows, highs = zip(*map(_range, known), strict=True)
    return between(min(lows), max(highs), whole=all(map(whole_range, known)))


def rounding(value: float, dtypes: frozenset[Value] | None) -> float:
    """By how much `value` changes at most as an element of one of some dtypes; None for any."""
    if isinf(value):
        return 0.0
    known = FORMATS if dtypes is None else map(_long, dtypes)
    return max((abs(rounded(value, dtype) - value) for dtype in known), default=0.0)


def _long(dtype: Value) -> str:
    return long_dtype(str(dtype)) or str(dtype)


def _range(dtype: str) -> tuple[Number, Number]:
    """The least and the greatest element; infinite where a dtype is not known."""
    if dtype in FORMATS and not has_infinity(dtype):
        return -FORMATS[dtype].largest, FORMATS[dtype].largest
    return whole_range(dtype) or (-inf, inf)
