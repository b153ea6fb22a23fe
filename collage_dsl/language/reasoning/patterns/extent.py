"""Compute bounds of the operator calls in the candidates of a rule, and of their paths."""

from dataclasses import dataclass
from functools import lru_cache, reduce
from math import inf

from collage_dsl.language.reasoning.patterns.largest import largest
from collage_dsl.language.reasoning.patterns.pattern_shape import with_called
from collage_dsl.language.reasoning.patterns.smallest import smallest
from collage_dsl.rules import (
    CombineByPrimitives,
    DFPattern,
    FusionRule,
    Horizontal,
    Host,
    Limits,
    MaxCoalesce,
    OnlyValid,
    OnlyVariants,
    OpCallByKind,
    OpPredicate,
    Pattern,
    Tagged,
    Union,
    Vertical,
)
from collage_dsl.rules.parts import written_operands
from collage_dsl.rules.pattern import Call, Flat, Operand, PatternCall, Reference
from collage_dsl.rules.vertical import MOST


@dataclass(frozen=True, slots=True)
class Extent:
    """
    Each candidate has `least` to `most` operator calls, and a path with at least `depth` of them.

    A path of at least `above` calls leads to each of its exits. From each node that takes a value
    from outside, a path of at least `below` calls leads on.
    """

    least: int
    most: float
    depth: int
    above: int
    below: int

    def __or__(self, other: "Extent") -> "Extent":
        return Extent(
            min(self.least, other.least),
            max(self.most, other.most),
            min(self.depth, other.depth),
            min(self.above, other.above),
            min(self.below, other.below),
        )

    @property
    def joined_nodes(self) -> int:
        """The least number of calls in two touching candidates that share none."""
        return 2 * self.least

    @property
    def joined_depth(self) -> int:
        """The least depth of two touching candidates."""
        return max(self.depth, self.above + self.below)

    @property
    def depth_with_prologue(self) -> int:
        """The least depth of a candidate with a call above it."""
        return max(self.depth, 1 + self.below)

    @property
    def depth_with_epilogue(self) -> int:
        """The least depth of a candidate with a call below it."""
        return max(self.depth, self.above + 1)


def extent(rule: FusionRule) -> Extent | None:
    """The extent of the candidates of `rule`; None if it never proposes any."""
    match rule:
        case OpCallByKind() | OpPredicate():
            return Extent(1, 1, 1, 1, 1)
        case DFPattern(pattern):
            return _of_pattern(pattern)
        case Host():
            return None
        case Tagged(_, inner) | OnlyVariants(inner):
            return extent(inner)
        case Union(rules):
            known = [found for found in map(extent, rules) if found is not None]
            return reduce(Extent.__or__, known) if known else None
        case OnlyValid(inner, limits):
            found = extent(inner)
            return None if found is None else _within(found, limits)
        case CombineByPrimitives(inner, max_nodes=most):
            return _grown(extent(inner), inf if most is None else most)
        case MaxCoalesce(inner):
            return _grown(extent(inner), inf)
        case Vertical(inner):
            found = extent(inner)
            return None if found is None else _grown(found, found.most + 2 * MOST)
        case Horizontal(inner, most):
            found = extent(inner)
            return found and Extent(
                found.least, found.most * most, found.depth, found.above, found.below
            )


@lru_cache(1024)
def _of_pattern(pattern: Pattern) -> Extent:
    least = smallest(pattern)
    results = pattern.results
    ends = int(all(_is_call(pattern, result) for result in results))
    above = least.depth if _is_closed(pattern) else min(1, least.depth)
    return Extent(least.nodes, largest(pattern), least.depth, above, ends)


def _is_closed(pattern: Pattern) -> bool:
    """Whether nothing but the result of `pattern` may be used outside."""
    return not pattern.others and not any(map(_lets_out, with_called(pattern)))


def _lets_out(pattern: Pattern) -> bool:
    shared = (operand for operand in written_operands(pattern) if isinstance(operand, Call | Flat))
    return pattern.taps or any(operand.shared for operand in shared)


def _is_call(pattern: Pattern, name: str) -> bool:
    """Whether the value `name` is a call in every match."""
    values = pattern.values
    operand: Operand = Reference(name)
    while True:
        match operand:
            case Reference(inner) if inner in values:
                operand = values[inner]
            case Call(optional=False) | Flat():
                return True
            case PatternCall(pattern=inner_pattern, optional=False):
                return _is_call(inner_pattern, inner_pattern.result)
            case _:
                return False


def _within(found: Extent, limits: Limits) -> Extent | None:
    """The extent of those candidates that are within `limits`; None if there are none."""
    least = max(found.least, limits.min_nodes or 0)
    most = min(found.most, inf if limits.max_nodes is None else limits.max_nodes)
    is_too_deep = limits.max_depth is not None and found.depth > limits.max_depth
    if least > most or is_too_deep:
        return None
    return Extent(least, most, found.depth, found.above, found.below)


def _grown(found: Extent | None, most: float) -> Extent | None:
    """The extent if candidates may also be joined to larger ones, of up to `most` calls."""
    if found is None:
        return None
    return Extent(found.least, max(found.most, most), found.depth, min(1, found.above), found.below)
