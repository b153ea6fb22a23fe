"""Find comparisons that lead round in a circle: `a < b`, `b < c` and `c < a` never all hold."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import ceil, floor

from collage_dsl.language.reasoning.values.domain import Values, is_infinite, is_whole
from collage_dsl.rules.condition import Comparison, Expression

Bound = tuple[int, int]
"""`(4, 0)` is at most 4, and `(4, -1)` is less than 4. Bounds are added and compared as tuples."""

Node = Expression | None
"""Something with one number as its value; None is the number 0."""

ZERO: Node = None


@dataclass(frozen=True, slots=True)
class Difference:
    """`left - right operator number`, of whole numbers if `is_whole`."""

    left: Node
    operator: Comparison
    right: Node
    number: int
    is_whole: bool = True

    def bounds(self) -> tuple[tuple[Node, Node, Bound], ...]:
        """What it says, as upper bounds of differences; for `!=`, one of the bounds holds."""
        left, right, number = self.left, self.right, self.number
        match self.operator:
            case "<=":
                return ((left, right, (number, 0)),)
            case ">=":
                return ((right, left, (-number, 0)),)
            case "<":
                return ((left, right, self._below(number)),)
            case ">":
                return ((right, left, self._below(-number)),)
            case "==":
                return (left, right, (number, 0)), (right, left, (-number, 0))
            case "!=":
                return (left, right, self._below(number)), (right, left, self._below(-number))

    def _below(self, number: int) -> Bound:
        """A whole number below 4 is at most 3."""
        return (number - 1, 0) if self.is_whole else (number, -1)


@dataclass(slots=True)
class Differences:
    """
    Upper bounds of the difference of two nodes, and differences that are not some number.

    `values` has a value for each node such that all bounds hold, so a new bound is cheap to add if
    it holds already. If it does not, only the values that it makes too large are lowered
    (Cotton and Maler 2006). If that leads back to the new bound, no values are possible.
    """

    values: dict[Node, Bound] = field(default_factory=dict)
    bounds: dict[Node, dict[Node, Bound]] = field(default_factory=dict)
    """`bounds[y][x]` is the upper bound of `x - y`."""
    unequal: tuple[Difference, ...] = ()
    """Differences with `!=`."""
    changes: int = 0
    """How often a bound or a difference was added that was not known."""

    def copy(self) -> "Differences":
        bounds = {node: dict(others) for node, others in self.bounds.items()}
        return Differences(dict(self.values), bounds, self.unequal)

    def __contains__(self, node: Node) -> bool:
        return node in self.values

    def start(self, node: Node) -> None:
        """Add `node`, of which nothing is known yet."""
        self.values.setdefault(node, (0, 0))
        self.bounds.setdefault(node, {})

    def add(self, difference: Difference) -> bool:
        """Add `difference`, of nodes that are known. False if no values are possible any more."""
        if difference.operator == "!=":
            if difference not in self.unequal:
                self.unequal += (difference,)
                self.changes += 1
        elif not all(self._bound(*bound) for bound in difference.bounds()):
            return False
        return all(map(self._can_differ, self.unequal))

    def may_add(self, equality: Difference) -> bool:
        """Whether values are possible with `equality`, a difference with `==` of known nodes."""
        if self._is_now(equality) and not any(map(self._is_now, self.unequal)):
            return True
        return self.copy().add(equality)

    def _is_now(self, difference: Difference) -> bool:
        """Whether the two nodes have, by now, values that differ by just the number."""
        right = self.values[difference.right]
        return self.values[difference.left] == _sum(right, (difference.number, 0))

    def _bound(self, left: Node, right: Node, most: Bound) -> bool:
        known = self.bounds[right].get(left)
        if known is not None and known <= most:
            return True
        self.bounds[right][left] = most
        self.changes += 1
        return self._lower(left, right, most)

    def _can_differ(self, unequal: Difference) -> bool:
        """Whether values are possible for which `unequal` holds, by itself."""
        if not self._is_now(unequal):
            return True
        return any(self._lower(*bound) for bound in unequal.bounds())

    def _lower(self, left: Node, right: Node, most: Bound) -> bool:
        """Find values for which `left - right` is at most `most` too. False if there are none."""
        values, lowered, order = self.values, dict[Node, Bound](), count()
        least = _sum(values[right], most)
        if least >= values[left]:
            return True
        waiting = [((0, 0), next(order), left, least)]
        while waiting:
            _, _, node, value = heappop(waiting)
            if node in lowered or value >= values[node]:
                continue
            if node == right:
                return False
            lowered[node] = value
            for other, bound in self.bounds[node].items():
                low = _sum(value, bound)
                if other not in lowered and low < values[other]:
                    heappush(waiting, (_less(low, values[other]), next(order), other, low))
        values |= lowered
        return True


def _sum(left: Bound, right: Bound) -> Bound:
    return left[0] + right[0], left[1] + right[1]


def _less(left: Bound, right: Bound) -> Bound:
    return left[0] - right[0], left[1] - right[1]


def limits(node: Node, values: Values) -> Iterator[Difference]:
    """The least and the greatest of the values of `node`, as differences from 0."""
    whole = is_whole(values)
    least, most = values.whole_bounds() if whole else values.bounds()
    if not is_infinite(least):
        operator: Comparison = ">" if least == floor(least) and least not in values else ">="
        yield Difference(node, operator, ZERO, floor(least), whole)
    if not is_infinite(most):
        operator = "<" if most == ceil(most) and most not in values else "<="
        yield Difference(node, operator, ZERO, ceil(most), whole)
