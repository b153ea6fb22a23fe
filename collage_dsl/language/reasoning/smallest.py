"""Compute a lower bound of the size and depth of a match of a pattern."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from collage_dsl.graph.operators import is_commutative
from collage_dsl.rules.pattern import (
    Anything,
    Call,
    Either,
    FieldOf,
    Flat,
    ListOf,
    Number,
    Operand,
    PathFrom,
    Pattern,
    PatternCall,
    Reference,
    Repeat,
    TupleOf,
    TupleOfEach,
)

_MOST_COMPARED = 60
"""With more calls than this, only those on one path are counted as different nodes."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """
    A part of every match: a call, a number, or (`is_open`) anything. A call `of_kind` may be of
    operators that are not named in `ops`.
    """

    ops: tuple[str, ...] = ()
    operands: tuple["Part", ...] = ()
    number: float | None = None
    is_open: bool = False
    of_kind: bool = False


_ANYTHING = Part(is_open=True)


@dataclass(frozen=True, slots=True)
class Smallest:
    """The least number of calls in a match, and on its longest path."""

    nodes: int
    depth: int


def smallest(pattern: Pattern) -> Smallest:
    """
    A lower bound for every match of `pattern`.

    Optional calls are counted as absent, repeated ones with the fewest repetitions. Two calls
    that could be the same node of a model count as one.
    """
    frame = _Frame(pattern, {})
    roots = [frame.named(name) for name in (pattern.result, *pattern.others)]
    depths: dict[Part, int] = {}
    for root in roots:
        _depth(root, depths)
    calls = [part for part in depths if part.ops]
    deepest = max(depths.values())
    if len(calls) > _MOST_COMPARED:
        return Smallest(deepest, deepest)
    return Smallest(max(deepest, _different(calls)), deepest)


@dataclass(slots=True)
class _Frame:
    """The names of a pattern whose parameters stand for the parts `given`."""

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
            case Call(operands=operands):
                inner = tuple(map(self.part, operands))
                return Part(operand.names, inner, of_kind=bool(operand.kinds))
            case Flat(op, operands):  # any of its operators, and any number of calls
                return Part((op,), tuple(map(self.part, operands)), is_open=True)
            case PatternCall(pattern, operands):
                return _called(pattern, tuple(map(self.part, operands)))
            case TupleOf(fields):
                return Part(operands=tuple(map(self.part, fields)))
            case PathFrom(_, origin):  # its calls may be those of other parts
                return Part(operands=(self.part(origin),), is_open=True)
            case TupleOfEach(field):  # the fields may be one node
                return Part(operands=(self.part(field),), is_open=True)
            case FieldOf(of):
                return Part(operands=(self.part(of),))
            case Repeat(Call() as call, least):
                found = self.part(call.operands[0])
                others = tuple(map(self.part, call.operands[1:]))
                for _ in range(least):
                    found = Part(call.names, (found, *others), of_kind=bool(call.kinds))
                return found
            case Repeat(PatternCall(pattern, operands, optional=False), least):
                found = self.part(operands[0])
                others = tuple(map(self.part, operands[1:]))
                for _ in range(least):
                    found = _called(pattern, (found, *others))
                return found
            case Repeat() | Either() | Anything() | ListOf():
                return _ANYTHING


def _called(pattern: Pattern, operands: tuple[Part, ...]) -> Part:
    """The result of `pattern` with these values for its parameters."""
    names = (parameter.name for parameter in pattern.parameters)
    return _Frame(pattern, dict(zip(names, operands, strict=True))).named(pattern.result)


def _depth(part: Part, depths: dict[Part, int]) -> int:
    """The number of calls on the longest path down from `part`; `depths` remembers results."""
    if part not in depths:
        below = max((_depth(operand, depths) for operand in part.operands), default=0)
        depths[part] = below + bool(part.ops)
    return depths[part]


def _different(calls: list[Part]) -> int:
    """How many of `calls` are different nodes in every match. Operands come before users."""
    below = {call: set(_below(call)) for call in calls}
    comparison = _Comparison()
    kept: list[Part] = []
    for call in calls:
        if all(other in below[call] or not comparison.may_be(call, other) for other in kept):
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


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Tells whether one node can match two parts. Results are remembered."""

    found: dict[tuple[Part, Part], bool] = field(default_factory=dict)

    def may_be(self, left: Part, right: Part) -> bool:
        pair = left, right
        if pair not in self.found:
            self.found[pair] = left is right or left.is_open or right.is_open or self.alike(*pair)
        return self.found[pair]

    def alike(self, left: Part, right: Part) -> bool:
        if left.number != right.number or len(left.operands) != len(right.operands):
            return False
        of_kind = left.of_kind or right.of_kind
        ops = set(left.ops) & set(right.ops)
        if not ops and (left.ops or right.ops) and not (of_kind and left.ops and right.ops):
            return False
        if self.are_all(left.operands, right.operands):
            return True
        may_turn = of_kind or any(map(is_commutative, ops))
        return may_turn and self.are_all(left.operands, right.operands[::-1])

    def are_all(self, left: Iterable[Part], right: Iterable[Part]) -> bool:
        return all(map(self.may_be, left, right))
