"""The parts of a pattern that may match in several ways, and what stands for each way."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from collage_dsl.graph import Kind
from collage_dsl.language.reasoning.patterns.kinds_of_calls import Alike, of_operators
from collage_dsl.language.reasoning.patterns.sure_parts import is_chain
from collage_dsl.rules.parts import in_chain, written_operands
from collage_dsl.rules.pattern import (
    Anything,
    Binding,
    Call,
    Either,
    FieldOf,
    Flat,
    Operand,
    PathFrom,
    Pattern,
    PatternCall,
    Reference,
    Repeat,
    TupleOf,
    TupleOfEach,
)
from collage_dsl.source import Span

_MOST_COUNTS = 4
MOST_REPEATED = 8
"""Repetitions with more counts, or of more calls, are not examined; nor more fields of a tuple."""

ALTERNATIVES = "with any of the alternatives"
REPETITIONS = "with any number of repetitions"
PRESENCE = "with this part and without it"


@dataclass(frozen=True, slots=True)
class Way:
    """
    One way in which a part of a pattern may match: `value` instead of it, at `span`. If it is that
    an optional call is absent, the place of the call is `without`. A repetition has a `count`.
    """

    value: Operand
    span: Span | None = None
    without: Span | None = None
    count: int = 0


@dataclass(frozen=True, slots=True)
class OpenPart:
    """
    A part that matches in one of several `ways`; `said` are words for all of them. `number`
    identifies it in the patterns where other parts are replaced. Compiled functions are left out.
    `span` is the place of repeated calls.
    """

    binding: Binding
    number: int
    ways: tuple[Way, ...]
    said: str
    span: Span | None = None

    def taken(self, pattern: Pattern, way: Way) -> Pattern:
        """`pattern` where this part matches in one way."""
        return with_values(pattern, {self.binding.name: way.value})


def open_parts(
    pattern: Pattern,
    required: frozenset[str],
    alike: Alike | None = None,
    most_counts: int = _MOST_COUNTS,
) -> Iterator[OpenPart]:
    """
    The parts of what is in every match of `pattern`, the values that are `required`. Calls by kind
    are parts if it is said which operators are `alike`, repeated calls if they have no more counts
    than `most_counts`.
    """
    values = pattern.values
    found = _Parts(alike, values, most_counts)
    for binding in pattern.bindings:
        if binding.name in required:
            for each in found.of(binding.value):
                yield replace(each, binding=binding)


def one_of_each(parts: Iterable[OpenPart]) -> list[OpenPart]:
    """The first part of each binding, as far as all of these can match."""
    first: dict[str, OpenPart] = {}
    for part in parts:
        first.setdefault(part.binding.name, part)
    return list(first.values()) if all(part.ways for part in first.values()) else []


def with_values(pattern: Pattern, values: Mapping[str, Operand]) -> Pattern:
    """`pattern` with other values of some bindings, by name."""
    bindings = (
        Binding(each.name, values[each.name]) if each.name in values else each
        for each in pattern.bindings
    )
    return replace(pattern, bindings=tuple(bindings))


def kinds_in(pattern: Pattern) -> frozenset[Kind]:
    """The kinds of calls and paths in `pattern` of which something is known."""
    written = [each for each in written_operands(pattern) if isinstance(each, Call | PathFrom)]
    return frozenset(kind for each in written for kind in each.kinds) - {Kind.OPAQUE}


_NOWHERE = Binding("", Anything())


@dataclass(frozen=True, slots=True)
class _Parts:
    alike: Alike | None
    values: Mapping[str, Operand]
    most_counts: int

    def of(self, operand: Operand) -> Iterator[OpenPart]:
        match operand:
            case Call() | PatternCall():
                yield from self.of_call(operand)
            case Either(alternatives):
                yield _part(operand, (Way(a, _span(a)) for a in alternatives), ALTERNATIVES)
            case Repeat(call, least, most, span) if self.are_few(least, most):
                counts = range(least, most + 1)
                ways = (Way(in_chain(call, n), count=n) for n in counts)
                yield replace(_part(operand, ways, REPETITIONS), span=span)
            case TupleOfEach(field, least, most) if most <= MOST_REPEATED:
                counts = range(least, most + 1)
                yield _part(operand, (Way(TupleOf((field,) * n)) for n in counts), REPETITIONS)
            case PathFrom(ops, origin, least, most) if is_chain(operand) and most <= MOST_REPEATED:
                call = Call(ops, (origin,))
                counts = range(least, most + 1)
                yield _part(operand, (Way(in_chain(call, n)) for n in counts), REPETITIONS)
            case Flat(operands=operands):
                for at, inner in enumerate(operands):
                    for part in self.of(inner):
                        yield _inside(operand, at, part)
            case TupleOf(fields):
                for at, inner in enumerate(fields):
                    rest = fields[at + 1 :]
                    for part in self.of(inner):
                        made = (
                            replace(way, value=TupleOf((*fields[:at], way.value, *rest)))
                            for way in part.ways
                        )
                        yield replace(part, ways=tuple(made))
            case FieldOf(inner, index):
                for part in self.of(inner):
                    made = (replace(way, value=FieldOf(way.value, index)) for way in part.ways)
                    yield replace(part, ways=tuple(made))

    def are_few(self, least: int, most: int) -> bool:
        return most - least < self.most_counts and most <= MOST_REPEATED

    def of_call(self, call: Call | PatternCall) -> Iterator[OpenPart]:
        if call.optional:
            present = Way(replace(call, optional=False), call.span)
            yield _part(call, (present, Way(call.operands[0], without=call.span)), PRESENCE)
        elif isinstance(call, Call) and _has_kinds(call) and self.alike is not None:
            ways = (Way(each, call.span) for each in of_operators(call, self.alike, self.values))
            yield _part(call, ways, "")
        for at, inner in enumerate(call.operands[:1] if call.optional else call.operands):
            for part in self.of(inner):
                yield _inside(call, at, part)


def _has_kinds(call: Call) -> bool:
    """Whether only compiled functions are unknown among the calls of its kinds."""
    return bool(call.kinds) and Kind.OPAQUE not in call.kinds


def _part(operand: Operand, ways: Iterable[Way], said: str) -> OpenPart:
    return OpenPart(_NOWHERE, id(operand), tuple(ways), said)


def _inside(call: Call | PatternCall | Flat, at: int, part: OpenPart) -> OpenPart:
    made = []
    for way in part.ways:
        operands = (*call.operands[:at], way.value, *call.operands[at + 1 :])
        made.append(replace(way, value=replace(call, operands=operands)))
    return replace(part, ways=tuple(made))


def _span(operand: Operand) -> Span | None:
    return operand.span if isinstance(operand, Call | Flat | PatternCall | Reference) else None
