"""How exactly a cost is known, and which costs differ by no more than noise."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """
    How exactly a measured cost is known.

    The cost is between `low` and `high` seconds, by `count` times. `method` says how that was
    found; docs/measuring.md explains it. `speed` is the speed of the machine during the
    measurement, relative to its usual speed.
    """

    low: float
    high: float
    count: int
    method: str
    speed: float = 1.0


def are_equal(one: float, other: float, margin: float) -> bool:
    """Whether two costs differ by at most `margin`, as a part of the lower one."""
    return max(one, other) <= (1 + margin) * min(one, other)
