"""How exactly a cost is known, and which costs differ by no more than noise."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """
    How exactly a measured cost is known.

    The cost is between `low` and `high` seconds, as `count` times say: by which `method` is in
    docs/measuring.md. The machine had `speed` then, as a part of that at which the first cost of
    its store was measured; cost, `low` and `high` are corrected for it.
    """

    low: float
    high: float
    count: int
    method: str
    speed: float = 1.0


def are_equal(one: float, other: float, margin: float) -> bool:
    """Whether two costs differ by at most `margin`, a part of the lower."""
    return max(one, other) <= (1 + margin) * min(one, other)
