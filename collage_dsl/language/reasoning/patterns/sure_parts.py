"""Find what every match of a pattern has, in each way through its alternatives."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from collage_dsl.graph.operators import is_commutative, operators
from collage_dsl.rules.flattening import agree, operators_of, together
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

MOST_WAYS = 32
"""With more ways through the alternatives, some alternatives are not examined one by one."""

_MOST_COMPARED = 1000
"""The most values of products that are compared, in all ways together."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """
    A part of every match: a call, a number, or (`is_open`) anything. A call `of_kind` may be of
    operators that are not named in `ops`. A call that `takes_anything` may have other operands.

    `calls` different calls match a part with `ops`: those of a path. At least `levels` of them take
    each other's values in turn. One of `choices` matches a part that has any.
    """

    ops: tuple[str, ...] = ()
    operands: tuple["Part", ...] = ()
    number: float | None = None
    is_open: bool = False
    of_kind: bool = False
    takes_anything: bool = False
    calls: int = 1
    levels: int = 1
    choices: tuple["Part", ...] = ()


_ANYTHING = Part(is_open=True)


def ways(pattern: Pattern) -> Iterator[Part]:
    """
    The ways in which `pattern` can match: each match has all parts of one of them. The operands of
    the part that stands for a way are the results.

    Optional calls are absent in all of them, repeated ones have the fewest repetitions.
    """
    choosing = _Choosing()
    while True:
        frame = _Frame(pattern, {}, choosing)
        yield Part(operands=tuple(map(frame.named, pattern.results)))
        if not choosing.turn():
            return


def within(part: Part) -> Iterator[Part]:
    """What is in `part`, without what is in its `choices`."""
    seen: set[Part] = set()
    waiting = [*part.operands]
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.add(one)
            yield one
            waiting += one.operands


@dataclass(slots=True)
class _Choosing:
    """Takes one way through the alternatives after another, in the order of a counter."""

    taken: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    at: int = 0
    ways: int = 1
    compared: int = 0

    def may_compare(self, count: int) -> bool:
        """Whether so many more parts may be compared, as far as the effort is concerned."""
        self.compared += count
        return self.compared <= _MOST_COMPARED

    def choose(self, count: int) -> int | None:
        """Which of `count` alternatives is taken; None if there are too many ways."""
        if self.ways * count > MOST_WAYS:
            return None
        if self.at == len(self.taken):
            self.taken.append(0)
            self.counts.append(count)
        self.at += 1
        self.ways *= count
        return self.taken[self.at - 1]

    def turn(self) -> bool:
        """Go to the next way; False if all are taken."""
        while self.taken and self.taken[-1] == self.counts[-1] - 1:
            self.taken.pop()
            self.counts.pop()
        self.at, self.ways = 0, 1
        if self.taken:
            self.taken[-1] += 1
        return bool(self.taken)


@dataclass(slots=True)
class _Frame:
    """The names of a pattern whose parameters stand for the parts `given`."""

    pattern: Pattern
    given: Mapping[str, Part]
    choosing: _Choosing
    found: dict[str, Part] = field(default_factory=dict)
    values: Mapping[str, Operand] = field(init=False)

    def __post_init__(self) -> None:
        self.values = self.pattern.values

    def named(self, name: str) -> Part:
        if name not in self.found:
            value = self.values.get(name)
            self.found[name] = self.given.get(name, Part(is_open=True))
            if value is not None:
                self.found[name] = self.part(value)
        return self.found[name]

    def parts(self, operands: Iterable[Operand]) -> tuple[Part, ...]:
        return tuple(map(self.part, operands))

    def part(self, operand: Operand) -> Part:
        match operand:
            case Reference(name):
                return self.named(name)
            case Number(value, tolerance=0.0):
                return Part(number=value)
            case Number():
                return _ANYTHING
            case Call(optional=True) | PatternCall(optional=True):
                return _or_more(self.part(operand.operands[0]))
            case Call() | PatternCall():
                return self.called(operand, self.parts(operand.operands))
            case Flat():
                return self.flat(operand)
            case TupleOf(fields):
                return Part(operands=self.parts(fields))
            case PathFrom(_, origin, least, kinds=kinds):
                found = self.part(origin)
                if not least:
                    return _or_more(found)
                for calls in (least - 1, 1):  # only the last call is above the others
                    if calls:
                        found = Part(
                            operand.names,
                            (found,),
                            of_kind=bool(kinds),
                            takes_anything=True,
                            calls=calls,
                            levels=calls if is_chain(operand) else 1,
                        )
                return found
            case TupleOfEach(field):  # the fields may be one node
                return Part(operands=(self.part(field),), is_open=True)
            case FieldOf(of):
                return Part(operands=(self.part(of),))
            case Repeat(call, least, most):
                found = self.part(call.operands[0])
                for _ in range(least):
                    found = self.called(call, (found, *self.parts(call.operands[1:])))
                return found if least == most else _or_more(found)
            case Either(choices):
                taken = self.choosing.choose(len(choices))
                if taken is None:
                    return Part(is_open=True, choices=self.parts(choices))
                return self.part(choices[taken])
            case Anything() | ListOf():
                return _ANYTHING
            case _:
                assert_never(operand)

    def called(self, call: Call | PatternCall, operands: tuple[Part, ...]) -> Part:
        if isinstance(call, Call):
            return Part(call.names, operands, of_kind=bool(call.kinds))
        names = (parameter.name for parameter in call.pattern.parameters)
        given = dict(zip(names, operands, strict=True))
        return _Frame(call.pattern, given, self.choosing).named(call.pattern.result)

    def flat(self, flat: Flat) -> Part:
        """
        The root of the tree, above all values, and the calls above which it is in any case:
        with `n` leaves, some path has at least log2(n) calls. `power` makes several leaves of one.
        """
        ops, values = operators_of(flat.op), self.parts(flat.values)
        leaves = len(values)
        if flat.op == "multiply":
            leaves = different(values) if self.choosing.may_compare(leaves) else 1
        has_number = not agree(flat.op, together(flat), (), "")
        below: tuple[Part, ...] = ()
        for _ in range((leaves + has_number - 1).bit_length() - 1):
            below = (Part(ops, below, takes_anything=True),)
        return Part(ops, (*values, *below), takes_anything=True)


def is_chain(path: PathFrom) -> bool:
    """Whether all operators of a path take one operand, so that each call takes the one before."""
    taken = [operators()[op].operands for op in path.ops]
    return not path.kinds and all(names is not None and len(names) == 1 for names in taken)


def _or_more(part: Part) -> Part:
    """`part`, or a call that takes it."""
    return Part(operands=(part,), is_open=True)


def different(parts: Iterable[Part]) -> int:
    """
    How many nodes match `parts` in every match at least. What is in a part comes before it.
    """
    parts = list(parts)
    comparison = _Comparison()
    kept: list[Part] = []
    for part in parts:
        inside = set() if part.is_open else set(within(part))  # what is open may be what is in it
        if all(other in inside or not comparison.may_be(part, other) for other in kept):
            kept.append(part)
    return sum(part.calls for part in kept)


def _may_be_one(one: float, other: float) -> bool:
    """
    Whether one constant can match two numbers, which are rounded to its dtype. Whole numbers up to
    256 are exact in all dtypes of at least 16 bits.
    """
    largest = max(abs(one), abs(other))
    if one == other or (one % 1 == other % 1 == 0 and largest <= _EXACT):
        return one == other
    return abs(one - other) <= largest * _CLOSE


_EXACT, _CLOSE = 256, 0.25


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
        if left.number is not None and right.number is not None:
            return _may_be_one(left.number, right.number)
        if left.number != right.number:
            return False
        of_kind = left.of_kind or right.of_kind
        ops = set(left.ops) & set(right.ops)
        if not ops and (left.ops or right.ops) and not (of_kind and left.ops and right.ops):
            return False
        if left.takes_anything or right.takes_anything:
            return True
        if len(left.operands) != len(right.operands):
            return False
        if self.are_all(left.operands, right.operands):
            return True
        may_turn = of_kind or any(map(is_commutative, ops))
        return may_turn and self.are_all(left.operands, right.operands[::-1])

    def are_all(self, left: Iterable[Part], right: Iterable[Part]) -> bool:
        return all(map(self.may_be, left, right))
