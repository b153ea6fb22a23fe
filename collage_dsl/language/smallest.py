"""The smallest sub-graph that a pattern may match."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from collage_dsl.graph.operators import is_commutative
from collage_dsl.rules.pattern import (
    Anything,
    Call,
    Either,
    FieldOf,
    Number,
    Operand,
    Pattern,
    PatternCall,
    Reference,
    Repeat,
    TupleOf,
)

_MOST_COMPARED = 60
"""Of more calls than this only those on one path are told apart."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A call that every match has, a number, or (`is_open`) what may be anything."""

    ops: tuple[str, ...] = ()
    operands: tuple["Part", ...] = ()
    number: float | None = None
    is_open: bool = False


_ANYTHING = Part(is_open=True)


@dataclass(frozen=True, slots=True)
class Smallest:
    """At least so many calls, and so many on one path."""

    nodes: int
    depth: int


def smallest(pattern: Pattern) -> Smallest:
    """
    What each match has at least: optional calls are missing, repeated ones are repeated the
    fewest times. Two calls that could be the same node of a model count as one.
    """
    frame = _Frame(pattern, {})
    roots = [frame.named(name) for name in (pattern.result, *pattern.others)]
    depths: dict[Part, int] = {}
    for root in roots:
        _depth(root, depths)
    calls = [part for part in depths if part.ops]
    deepest = max(depths.values(), default=0)
    if len(calls) > _MOST_COMPARED:
        return Smallest(deepest, deepest)
    return Smallest(max(deepest, _different(calls)), deepest)


@dataclass(slots=True)
class _Frame:
    """The names of a pattern, of which the parameters stand for `given`."""

    pattern: Pattern
    given: Mapping[str, Part]
    found: dict[str, Part] = field(default_factory=dict)

    def named(self, name: str) -> Part:
        if name not in self.found:
            values = {binding.name: binding.value for binding in self.pattern.bindings}
            value = values.get(name)
            self.found[name] = self.given.get(name, Part(is_open=True))
            if value is not None:
                self.found[name] = self.part(value)
        return self.found[name]

    def part(self, operand: Operand) -> Part:
        match operand:
            case Reference(name):
                return self.named(name)
            case Number(value):
                return Part(number=value)
            case Call(optional=True) | PatternCall(optional=True):
                return self.part(operand.operands[0])
            case Call(ops, operands):
                return Part(ops, tuple(map(self.part, operands)))
            case PatternCall(pattern, operands):
                names = (parameter.name for parameter in pattern.parameters)
                given = dict(zip(names, map(self.part, operands), strict=True))
                return _Frame(pattern, given).named(pattern.result)
            case TupleOf(fields):
                return Part(operands=tuple(map(self.part, fields)))
            case FieldOf(of):
                return Part(operands=(self.part(of),))
            case Repeat(Call(ops, operands), least):
                found = self.part(operands[0])
                others = tuple(map(self.part, operands[1:]))
                for _ in range(least):
                    found = Part(ops, (found, *others))
                return found
            case Repeat() | Either() | Anything():
                return _ANYTHING


def _depth(part: Part, depths: dict[Part, int]) -> int:
    """The calls on the longest path down from `part`; that of each is kept in `depths`."""
    if part not in depths:
        below = max((_depth(operand, depths) for operand in part.operands), default=0)
        depths[part] = below + bool(part.ops)
    return depths[part]


def _different(calls: list[Part]) -> int:
    """How many of `calls` are different nodes in every match."""
    below = {call: set(_below(call)) for call in calls}
    kept: list[Part] = []
    for call in calls:
        if all(o in below[call] or call in below[o] or not _may_be(call, o) for o in kept):
            kept.append(call)
    return len(kept)


def _below(part: Part) -> Iterator[Part]:
    seen: set[Part] = set()
    waiting = [*part.operands]
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.add(one)
            yield one
            waiting += one.operands


def _may_be(left: Part, right: Part, levels: int = 3) -> bool:
    """Whether one node can match both; looked at a few levels down."""
    if left is right or left.is_open or right.is_open or levels == 0:
        return True
    if (left.number is None) != (right.number is None):
        return False
    if left.number is not None:
        return left.number == right.number
    if bool(left.ops) != bool(right.ops) or (left.ops and not set(left.ops) & set(right.ops)):
        return False
    if len(left.operands) != len(right.operands):
        return False
    if len(left.operands) == 2 and any(map(is_commutative, left.ops)):
        return _some_order(left, right, levels - 1)
    pairs = zip(left.operands, right.operands, strict=True)
    return all(_may_be(a, b, levels - 1) for a, b in pairs)


def _some_order(left: Part, right: Part, levels: int) -> bool:
    (a, b), (c, d) = left.operands, right.operands
    same = _may_be(a, c, levels) and _may_be(b, d, levels)
    return same or (_may_be(a, d, levels) and _may_be(b, c, levels))
