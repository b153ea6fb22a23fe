"""A bound on the work of one rule."""

from dataclasses import dataclass

STEPS = 100
"""How many steps a rule may take for each candidate that it may add."""


class BoundReachedError(Exception):
    """A rule has taken all steps that it may take."""


@dataclass(slots=True)
class Bound:
    """
    How many steps are left. A step is about a microsecond of work: a pair of candidates that may
    be joined, or one operator of a sub-graph that is examined.
    """

    left: int

    def spend(self, steps: int) -> None:
        """Raises `BoundReachedError` if fewer steps are left."""
        self.left -= steps
        if self.left < 0:
            raise BoundReachedError
