"""Ways to compute the same nodes, and which of them cost the same within noise."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import fsum

from collage_dsl.backends.base import Backend
from collage_dsl.backends.variants import IN_PLACE
from collage_dsl.cost import Infeasible, Measurement, Variant, cheapest
from collage_dsl.cost.spread import are_equal
from collage_dsl.graph import CandidateKernel, Graph
from collage_dsl.measuring.timing import AFTER_WAITING, IN_TURN, LOWER_OF_TWO

Key = tuple[str, tuple[str, ...], float]
"""A kernel, the contexts of its variants, and a time limit."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A kernel whose cost is asked for: the same candidate by each variant, and its key."""

    key: Key
    offered: Sequence[CandidateKernel]
    backend: Backend
    kernel: Graph


Way = tuple[tuple[Wanted, Measurement], ...]
"""Kernels that compute some nodes together, with what was measured of them."""

Ways = Sequence[Sequence[CandidateKernel]]
"""Different kernels, each alone or several together, for the same nodes."""


def may_be_equal(one: Sequence[Measurement], other: Sequence[Measurement], margin: float) -> bool:
    """
    Whether some kernels together may cost as much as others: by the margin, or by their spreads.
    """
    costs, other_costs = (
        [each.cost for each in some if not isinstance(each.cost, Infeasible)]
        for some in (one, other)
    )
    if len(costs) < len(one) or len(other_costs) < len(other):
        return False
    if are_equal(fsum(costs), fsum(other_costs), margin):
        return True
    low, high = _range(one)
    other_low, other_high = _range(other)
    return low <= other_high and other_low <= high


def _range(measured: Sequence[Measurement]) -> tuple[float, float]:
    """The sums of the low and of the high ends of the spreads of some kernels."""
    known = [(each.spread, each.cost) for each in measured]
    lows = (cost if spread is None else spread.low for spread, cost in known)
    highs = (cost if spread is None else spread.high for spread, cost in known)
    return fsum(lows), fsum(highs)  # type: ignore[arg-type]


_NEAR = 0.15
"""
Two ways for the same nodes, or two variants, may cost the same if they differ by this part and
were not timed in turn. Between two measurements, what else uses the caches, the memory and the core
changes the times by so much.
"""

_DOUBTED = 0.6
"""
Fewer kernels than those of the plan are timed once more if they cost up to this part more: they
seldom do so. Probably the machine was slower all the while they were timed.
"""

_APART = 0.05
"""Two ways that differ by more than this part are not equal, however wide their spreads are."""

_MOST_CLOSE = 8
"""The most ways for the same nodes that are timed in turn: of the others, few are the cheapest."""

_MOST_TOGETHER = 16
"""The most kernels of several groups that are timed in turn: all are in the memory together."""


def close_ways(ways: Sequence[Way]) -> list[Way]:
    """
    The ways that may cost as little as the cheapest one, which is one of them; of many, the
    cheapest `_MOST_CLOSE`, and the first, which is planned.
    """
    least = min(ways, key=_total, default=())
    close = []
    for way in ways:
        margin = _NEAR if is_unsure((*way, *least)) else _most(ways)
        if may_be_equal(_measured(way), _measured(least), margin):
            close.append(way)
    return [*close[:1], *sorted(close[1:], key=_total)[: _MOST_CLOSE - 1]]


def doubted(ways: Sequence[Way]) -> Way:
    """
    The kernels that were timed once, of ways with fewer kernels than the first, which is planned,
    that cost somewhat more than the cheapest way.
    """
    least = min(map(_total, ways), default=0.0)
    low, high = least * (1 + _NEAR), least * (1 + _DOUBTED)
    few = (way for way in ways if len(way) < len(ways[0]) and low < _total(way) <= high)
    parts = (part for way in few for part in way)
    return tuple(part for part in parts if runs(part[1]) and not was_timed_again(part[1]))


def doubted_in_turn(ways: Sequence[Way]) -> Way:
    """
    The kernels of the first way, which is planned, and of those with fewer kernels that cost
    somewhat more, all timed in turn. They are timed in turn once more, for the fewer seldom do so:
    probably their data lay in memory where they displace each other from the caches.
    """
    first: Way = ways[0] if ways else ()
    margin, total = _most(ways), _total(first)

    def is_doubted(way: Way) -> bool:
        both = [each for _, each in (*way, *first) if runs(each)]
        is_near = total < _total(way) <= total * (1 + _NEAR) and not _is_equal(way, first, margin)
        return is_near and all(map(_is_in_turn, both)) and not all(map(_is_twice_in_turn, both))

    few = [way for way in ways if len(way) < len(first) and is_doubted(way)]
    parts = {part[0].key: part for way in (first, *few) for part in way if runs(part[1])}
    return tuple(parts.values()) if few else ()


def slowed(ways: Sequence[Way]) -> Way:
    """
    The kernels of the first way, which is planned, that were timed while the machine was slower
    than usual, and not yet with long patience.
    """

    def is_slowed(measured: Measurement) -> bool:
        spread = measured.spread
        return spread is not None and spread.speed < 1 and AFTER_WAITING not in spread.method

    return tuple(part for part in (ways[0] if ways else ()) if is_slowed(part[1]))


def close_variants(every: Sequence[Measurement], chosen: Measurement) -> list[Measurement]:
    """The variants of a kernel that run code and may cost as little as the chosen one."""
    return [each for each in every if runs(each) and may_be_equal([each], [chosen], _NEAR)]


def joined(groups: Iterable[Way]) -> list[Way]:
    """
    The kernels of groups, in groups of those that are to be timed in turn: groups with a common
    kernel are one, as long as that is not larger than `_MOST_TOGETHER`.
    """
    found: list[dict[tuple[Key, str], tuple[Wanted, Measurement]]] = []
    for group in groups:
        together, apart = {(part[0].key, part[1].variant): part for part in group}, []
        for other in found:
            is_joined = not other.keys().isdisjoint(together)
            if is_joined and len(other | together) <= _MOST_TOGETHER:
                together = other | together
            else:
                apart.append(other)
        found = [*apart, together]
    return [tuple(group.values()) for group in found]


def made_equal(ways: Sequence[Way]) -> Iterator[tuple[Key, float]]:
    """
    The new costs of the kernels of ways. Each way that is equal to the cheapest one costs as much
    as the most expensive of these equal ways. Ways that a search would not prefer get a slightly
    higher cost, because sums are rounded.
    """
    least = min(ways, key=_total, default=())
    equal = [way for way in ways if _is_equal(way, least, _most(ways))]
    dearest = max(map(_total, equal), default=0.0)
    best = min(map(_order, equal), default=(0, 0))
    for way in equal if len(equal) > 1 else ():
        level = dearest if _order(way) == best else dearest * (1 + _MORE)
        for wanted, measured in way:
            assert not isinstance(measured.cost, Infeasible)
            part = level if len(way) == 1 else measured.cost * (level / _total(way))
            yield wanted.key, part


def _is_equal(one: Way, other: Way, margin: float) -> bool:
    """
    Whether noise hides which way costs less: by the margin, or because the cost of each is in the
    spread of the other, and they are not `_APART`.
    """
    cost, other_cost = _total(one), _total(other)
    if are_equal(cost, other_cost, margin):
        return True
    if not are_equal(cost, other_cost, _APART):
        return False
    low, high = _range(_measured(one))
    other_low, other_high = _range(_measured(other))
    return low <= other_cost <= high and other_low <= cost <= other_high


def _order(way: Way) -> tuple[int, int]:
    """
    The order in which a search prefers equal ways: the highest priority, then the fewest kernels.
    """
    calls = (
        len(wanted.offered[0].nodes) * wanted.offered[0].toolchain.priority for wanted, _ in way
    )
    return -sum(calls), len(way)


_MORE = 1e-8
"""The part by which a way that is not preferred costs more."""


def _measured(way: Way) -> list[Measurement]:
    return [measured for _, measured in way]


def _total(way: Way) -> float:
    return fsum(m.cost for _, m in way if not isinstance(m.cost, Infeasible))


def _most(ways: Sequence[Way]) -> float:
    """The largest noise margin of some kernels."""
    return max((margin_of(wanted.offered[0]) for way in ways for wanted, _ in way), default=0.0)


def runs(measured: Measurement) -> bool:
    """Whether a kernel runs code by the variant that was measured."""
    return measured.variant != IN_PLACE


def is_unsure(parts: Way) -> bool:
    """
    Whether there are several kernels, and some of them were not timed in turn with others yet.
    """
    return len(parts) > 1 and not all(was_in_turn(measured) for _, measured in parts)


def was_in_turn(measured: Measurement) -> bool:
    """Whether a kernel was timed in turn with others, or costs what was never timed."""
    return measured.spread is None or _is_in_turn(measured)


def _is_in_turn(measured: Measurement) -> bool:
    spread = measured.spread
    return spread is not None and IN_TURN in spread.method


def _is_twice_in_turn(measured: Measurement) -> bool:
    spread = measured.spread
    return spread is not None and IN_TURN + LOWER_OF_TWO in spread.method


def was_timed_again(measured: Measurement) -> bool:
    """Whether a kernel was timed more than once, or costs what was never timed."""
    spread = measured.spread
    return spread is None or IN_TURN in spread.method or LOWER_OF_TWO in spread.method


def cheapest_of(measured: Sequence[Measurement], margin: float) -> Measurement:
    """The same as `cost.cheapest`, for measured variants."""
    variants = [variant_of(each) for each in measured]
    return measured[variants.index(cheapest(variants, margin))]


def margin_of(candidate: CandidateKernel) -> float:
    """The noise margin of its target, as a part of a cost."""
    return candidate.toolchain.measure.noise_margin


def variant_of(measured: Measurement) -> Variant:
    """What was measured, without what it was measured of."""
    return Variant(measured.variant, measured.cost, measured.error)


def by_variant(wanted: Wanted, measured: Measurement) -> CandidateKernel:
    """The candidate by the variant that was measured."""
    found = (each for each in wanted.offered if each.toolchain.variant == measured.variant)
    return next(found)
