"""How exactly a few times tell a percentile: its confidence interval, for any distribution."""

from collections.abc import Sequence
from functools import cache
from math import ceil, exp, floor, lgamma, log, sqrt

CONFIDENCE = 0.95
"""The probability with which an interval has the percentile in it."""

_MANY = 200
"""For more times than this, the normal distribution takes the place of the binomial one."""

_QUANTILE = 1.96
"""The quantile of the normal distribution that belongs to `CONFIDENCE`."""


def interval(times: Sequence[float], percentile: int) -> tuple[float, float]:
    """
    The confidence interval of a percentile; from the shortest to the longest time where there are
    too few times for one.
    """
    ordered = sorted(times)
    low, high = ranks(len(ordered), percentile) or (1, len(ordered))
    return ordered[low - 1], ordered[high - 1]


def is_exact(times: Sequence[float], percentile: int, margin: float) -> bool:
    """Whether a percentile is known within `margin`, as a part of it."""
    if ranks(len(times), percentile) is None:
        return False
    low, high = interval(times, percentile)
    return high <= (1 + margin) * low


@cache
def ranks(count: int, percentile: int) -> tuple[int, int] | None:
    """
    The ranks of the two of `count` sorted times that are the ends of the interval. None if `count`
    is too small, and always for the percentiles 0 and 100.

    The number of times that are below a percentile has a binomial distribution. The percentile is
    below the time of rank `low` with a probability of at most 2.5 %, and not below that of rank
    `high` with at most 2.5 %. (H. A. David, H. N. Nagaraja: Order Statistics, 3rd edition, 2003,
    section 7.1.)
    """
    part, outside = percentile / 100, (1 - CONFIDENCE) / 2
    if not 0 < part < 1:
        return None
    if count > _MANY:
        width = _QUANTILE * sqrt(count * part * (1 - part))
        low, high = floor(count * part - width), ceil(count * part + width) + 1
    else:
        below = [sum(_chances(count, part)[:rank]) for rank in range(count + 2)]
        low = max(rank for rank in range(count + 1) if below[rank] <= outside)
        high = min(rank for rank in range(count + 2) if 1 - below[rank] <= outside)
    return (low, high) if low >= 1 and high <= count else None


@cache
def _chances(count: int, part: float) -> list[float]:
    """The probability that k of `count` times are below a percentile, for each k."""
    of_all = lgamma(count + 1)
    return [
        exp(
            of_all
            - lgamma(k + 1)
            - lgamma(count - k + 1)
            + k * log(part)
            + (count - k) * log(1 - part)
        )
        for k in range(count + 1)
    ]
