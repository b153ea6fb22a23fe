"""Find the nodes where a pattern almost matches, and count how many of its parts hold there."""

from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

from collage_dsl.graph import Graph, members
from collage_dsl.rules.condition import depends_on_facts
from collage_dsl.rules.explain import Answer, Explanation, How, Step, Way, explained
from collage_dsl.rules.frame import Frame
from collage_dsl.rules.matcher import Matcher
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
from collage_dsl.rules.predicate import Lookup, no_host_code


@dataclass(frozen=True, slots=True)
class Share:
    """How many parts of a pattern held, and `of` how many."""

    held: int = 0
    of: int = 0

    def __add__(self, other: "Share") -> "Share":
        return Share(self.held + other.held, self.of + other.of)

    @property
    def fraction(self) -> Fraction:
        return Fraction(self.held, self.of) if self.of else Fraction(1)


@dataclass(frozen=True, slots=True)
class Near:
    """
    The nodes where a pattern matches, and the nearest of the nodes where it does not match.
    `farther` counts the other nodes where some part held, `apart` those where nothing held.
    """

    matched: tuple[int, ...]
    misses: tuple[tuple[Share, Explanation], ...]
    farther: int
    apart: int


def near(pattern: Pattern, graph: Graph, top: int = 10, lookup: Lookup = no_host_code) -> Near:
    """
    The `top` nodes without a match at which the largest share of `pattern` holds; equal ones are
    in graph order. Raises PredicateError if `lookup` raises it.
    """
    matched: list[int] = []
    misses: list[tuple[Share, Explanation]] = []
    apart = farther = 0
    matcher = Matcher(pattern, graph, lookup)
    for index in members(graph.computed):
        explanation = explained(matcher, index)
        share = share_of(explanation)
        if explanation.matches:
            matched.append(index)
        elif share.held == 0:
            apart += 1
        else:
            misses.append((share, explanation))
            misses.sort(key=lambda miss: miss[0].fraction, reverse=True)  # keeps the order of ties
            farther += len(misses[top:])
            del misses[top:]
    return Near(tuple(matched), tuple(misses), farther, apart)


def share_of(explanation: Explanation) -> Share:
    """
    The share of the pattern that held. The parts that count are operators, tuples, projections,
    parameters that are not just any value, and conditions. Optional operators count if they are
    present. Of several alternatives, the one with the largest share counts. If inner values are
    used outside, this counts as one part that did not hold.
    """
    return _Counter().step(explanation.step) + Share(0, len(explanation.step.refused[:1]))


class _Counter:
    """Adds up the record of an attempt. Each name counts once, at its first occurrence."""

    def __init__(self, counted: frozenset[tuple[str, str]] = frozenset()) -> None:
        self.counted = set(counted)

    def step(self, step: Step) -> Share:
        if step.name:
            key = (step.frame.prefix, step.name)
            if key in self.counted:
                return Share() if step.held else Share(0, 1)
            self.counted.add(key)
        match step.wanted:
            case Call() as call:
                return self.call(step, call)
            case Number() | ListOf():
                return Share(int(step.held), 1)
            case TupleOf() | TupleOfEach() | FieldOf() | PathFrom() | Flat():
                return self.best(step, Share(1, 1)) if step.ways else self.missing(step)
            case Reference() if step.parameter and step.parameter.is_restricted:
                return self.best(step, Share(int(not step.refused), 1))
            case Either() if not step.ways:
                return self.missing(step)
            case PatternCall() | Repeat() | Either() | Reference() | Anything():
                return self.best(step, Share())
            case _:
                assert_never(step.wanted)

    def call(self, step: Step, call: Call) -> Share:
        plain = sum(not depends_on_facts(where.condition) for where in call.attributes)
        held = sum(asked.answer is Answer.HELD for asked in step.asked)
        present = [way for way in step.ways if way.how in (How.PARTS, How.SWAPPED)]
        if present or step.asked:
            own = Share(1 + held, 1 + plain)
            if not present:
                own += Share(0, self.sizes(step.frame, call.operands))
                return own
            return self.best(step, own)
        return self.best(step, Share()) if step.ways else self.missing(step)

    def best(self, step: Step, own: Share) -> Share:
        """The share of the best way. `own` is added, unless the way is that the call is absent."""
        found: tuple[Share, set[tuple[str, str]]] | None = None
        for way in step.ways:
            counter = _Counter(frozenset(self.counted))
            share = counter.way(step, way)
            if way.how is not How.ABSENT:
                share += own
            if found is None or (share.fraction, share.held) > (found[0].fraction, found[0].held):
                found = share, counter.counted
        if found is None:
            return own
        self.counted = found[1]
        return found[0]

    def way(self, step: Step, way: Way) -> Share:
        match step.wanted:
            case Call(_, operands) if way.how in (How.PARTS, How.SWAPPED):
                return self.parts(step, way, operands)
            case TupleOf(fields):
                return self.parts(step, way, fields)
            case Flat() as flat:
                return self.flat(step, way, flat)
            case PathFrom() if way.steps:
                return self.best_of(way.steps)
            case TupleOfEach(field) if way.given:
                return self.parts(step, way, (field,) * len(way.given))
        total = Share()
        if way.pattern is not None:
            asked = len(way.asked) or len(way.pattern.conditions)
            total = Share(sum(each.answer is Answer.HELD for each in way.asked), asked)
            return total + self.results(way, way.pattern)
        for part in way.steps:
            total += self.step(part)
        return total

    def parts(self, step: Step, way: Way, wanted: tuple[Operand, ...]) -> Share:
        total = Share()
        for operand, node in zip(wanted, way.given, strict=True):
            tried = (part for part in way.steps if part.node == node and part.is_for(operand))
            part = next(tried, None)
            total += self.step(part) if part else Share(0, self.size(step.frame, operand))
        return total

    def flat(self, step: Step, way: Way, flat: Flat) -> Share:
        """For each value of a tree, the best of the nodes that were tried counts."""
        total = Share(int(not way.refused), 1) if flat.numbers else Share()
        for operand in flat.values:
            tried = [part for part in way.steps if part.is_for(operand)]
            total += self.best_of(tried) if tried else Share(0, self.size(step.frame, operand))
        return total

    def results(self, way: Way, pattern: Pattern) -> Share:
        """The results of a pattern. For each further result, the best of the tried nodes counts."""
        total = Share()
        for name in pattern.results:
            tried = [step for step in way.steps if step.name == name]
            if tried:
                total += self.best_of(tried)
            elif way.steps:
                total += Share(0, self.size(way.steps[0].frame, Reference(name)))
        return total

    def best_of(self, tried: list[Step]) -> Share:
        """The largest share of steps of which one is enough."""
        shares = [(_Counter(frozenset(self.counted)), step) for step in tried]
        counted = [(counter.step(step), counter) for counter, step in shares]
        share, counter = max(counted, key=lambda each: each[0].fraction)
        self.counted = counter.counted
        return share

    # The number of parts in what was not tried.

    def missing(self, step: Step) -> Share:
        return Share(0, self.size(step.frame, step.wanted))

    def sizes(self, frame: Frame, operands: tuple[Operand, ...]) -> int:
        return sum(self.size(frame, operand) for operand in operands)

    def size(self, frame: Frame, operand: Operand) -> int:
        """How many parts `operand` has at least."""
        match operand:
            case Anything():
                return 0
            case Number() | ListOf():
                return 1
            case Reference(name):
                return self.size_of_name(frame, name)
            case Call(_, operands) | PatternCall(_, operands) if operand.optional:
                return self.size(frame, operands[0])
            case Call(_, operands, attributes):
                plain = sum(not depends_on_facts(where.condition) for where in attributes)
                return 1 + plain + self.sizes(frame, operands)
            case PatternCall(pattern, operands):
                return self.sizes(frame, operands) + _Counter().pattern_size(pattern)
            case Flat(_, operands):
                return 1 + bool(operand.numbers) + self.sizes(frame, operand.values)
            case TupleOf(fields):
                return 1 + self.sizes(frame, fields)
            case TupleOfEach(field, least):
                return 1 + self.sizes(frame, (field,) * least)
            case FieldOf(of) | PathFrom(_, of):
                return 1 + self.size(frame, of)
            case Repeat(call, least):
                if least == 0:
                    return self.size(frame, call.operands[0])
                return least - 1 + self.size(frame, call)
            case Either(choices):
                counter = frozenset(self.counted)
                return min(_Counter(counter).size(frame, choice) for choice in choices)
            case _:
                assert_never(operand)

    def size_of_name(self, frame: Frame, name: str) -> int:
        key = (frame.prefix, name)
        if key in self.counted:
            return 0
        self.counted.add(key)
        parameter = frame.pattern.parameter(name)
        if parameter is None:
            return self.size(frame, frame.values[name])
        behind = self.size(frame.caller, frame.operands[name]) if frame.caller else 0
        return int(parameter.is_restricted) + behind

    def pattern_size(self, pattern: Pattern) -> int:
        frame = Frame.of(pattern)
        return len(pattern.conditions) + self.sizes(frame, frame.results)
