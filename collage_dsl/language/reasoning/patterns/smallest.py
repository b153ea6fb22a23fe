"""Compute a lower bound of the size and depth of a match of a pattern."""

from dataclasses import dataclass
from functools import lru_cache

from collage_dsl.language.reasoning.patterns.sure_parts import Part, different, ways, within
from collage_dsl.rules.pattern import Pattern

_MOST_COMPARED = 60
"""With more calls than this, only those on one path are counted as different nodes."""


@dataclass(frozen=True, slots=True)
class Smallest:
    """The least number of calls in a match, and on its longest path."""

    nodes: int
    depth: int


@lru_cache(1024)
def smallest(pattern: Pattern) -> Smallest:
    """
    A lower bound for every match of `pattern`.

    Optional calls are counted as absent, repeated ones with the fewest repetitions. Two calls
    that could be the same node of a model count as one.
    """
    found = [_of_way(way) for way in ways(pattern)]
    return Smallest(min(one.nodes for one in found), min(one.depth for one in found))


def _of_way(way: Part) -> Smallest:
    depths: dict[Part, int] = {}
    deepest = _depth(way, depths)
    sure = set(within(way))
    calls = [part for part in depths if part.ops and part in sure]
    if len(calls) > _MOST_COMPARED:
        return Smallest(deepest, deepest)
    return Smallest(max(deepest, different(calls)), deepest)


def _depth(part: Part, depths: dict[Part, int]) -> int:
    """The number of calls on the longest path down from `part`; `depths` remembers results."""
    if part not in depths:
        below = max((_depth(operand, depths) for operand in part.operands), default=0)
        chosen = min((_depth(choice, depths) for choice in part.choices), default=0)
        depths[part] = max(below, chosen) + (part.levels if part.ops else 0)
    return depths[part]
