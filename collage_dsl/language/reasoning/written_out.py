"""Write out the patterns that a pattern calls, so that what they say is examined together."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from collage_dsl.language.reasoning.pattern_shape import always_there
from collage_dsl.language.reasoning.terms import renamed
from collage_dsl.rules.condition import Where
from collage_dsl.rules.pattern import (
    Binding,
    Call,
    FieldOf,
    Flat,
    Number,
    Operand,
    Pattern,
    PatternCall,
    Reference,
    TupleOf,
)
from collage_dsl.source import Span

MOST_CALLS = 40
"""Calls of patterns after this many are not written out."""


@dataclass(frozen=True, slots=True)
class WrittenOut:
    """
    `pattern` without calls of patterns, as far as they are part of every match, and the names that
    every match binds. `said` has the place in the called pattern of each condition that comes from
    one, by `id`. Those conditions and the calls of operators have the place of the call. `places`
    are those of calls that are given no number, so that what holds of them always holds.
    """

    pattern: Pattern
    required: frozenset[str]
    said: Mapping[int, Span]
    places: frozenset[Span]


def written_out(pattern: Pattern) -> WrittenOut:
    writer = _Writer()
    required = _required(pattern)
    for binding in pattern.bindings:
        value = binding.value
        if binding.name in required:
            value = writer.operand(value, "", None)
        writer.bindings.append(Binding(binding.name, value))
    if not writer.count:
        return WrittenOut(pattern, required, {}, frozenset())
    whole = replace(
        pattern,
        bindings=tuple(writer.bindings),
        conditions=(*writer.conditions, *pattern.conditions),
    )
    return WrittenOut(whole, required | writer.names, writer.said, frozenset(writer.places))


def _required(pattern: Pattern) -> frozenset[str]:
    return always_there(pattern.parameters, pattern.bindings, (pattern.result, *pattern.others))


@dataclass(slots=True)
class _Writer:
    """
    `bindings` and `conditions` are those of the patterns that are called, with names that no user
    can write: `2:x` is `x` in the second call.
    """

    bindings: list[Binding] = field(default_factory=list)
    conditions: list[Where] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    said: dict[int, Span] = field(default_factory=dict)
    places: set[Span] = field(default_factory=set)
    count: int = 0

    def operand(self, operand: Operand, prefix: str, place: Span | None) -> Operand:
        """`operand` with calls written out. `prefix` is that of its names, `place` of the call."""
        match operand:
            case Reference(name):
                return Reference(prefix + name)
            case Call(operands=operands, attributes=attributes, optional=optional):
                inside = self.operands(operands, prefix, place, only_first=optional)
                if place is None:
                    return replace(operand, operands=inside)
                return replace(
                    operand,
                    operands=inside,
                    attributes=tuple(self.moved(where, prefix, place) for where in attributes),
                    span=place,
                )
            case PatternCall(operands=operands, optional=True):
                inside = self.operands(operands, prefix, place, only_first=True)
                return replace(operand, operands=inside, span=place or operand.span)
            case PatternCall(pattern, operands, span=span) if self.count < MOST_CALLS:
                inside = self.operands(operands, prefix, place)
                return self.body(pattern, inside, place or span)
            case Flat(operands=operands):
                inside = self.operands(operands, prefix, place)
                return replace(operand, operands=inside, span=place or operand.span)
            case TupleOf(fields):
                return TupleOf(self.operands(fields, prefix, place))
            case FieldOf(of, index):
                return FieldOf(self.operand(of, prefix, place), index)
            case _:
                return operand

    def operands(
        self,
        operands: tuple[Operand, ...],
        prefix: str,
        place: Span | None,
        *,
        only_first: bool = False,
    ) -> tuple[Operand, ...]:
        """Operands other than the first of an optional call may be absent: they have no names."""
        if not operands:
            return ()
        first, *others = operands
        if only_first and prefix:
            return (self.operand(first, prefix, place), *(Reference(f"{prefix}?") for _ in others))
        if only_first:
            return (self.operand(first, prefix, place), *others)
        return tuple(self.operand(each, prefix, place) for each in (first, *others))

    def body(self, pattern: Pattern, operands: tuple[Operand, ...], place: Span | None) -> Operand:
        """Write `pattern` out with its parameters bound to `operands`; the result of it."""
        self.count += 1
        if place is not None and not any(map(self.is_number, operands)):
            self.places.add(place)
        prefix = f"{self.count}:"
        required = _required(pattern)
        given = zip((parameter.name for parameter in pattern.parameters), operands, strict=True)
        for name, operand in given:
            if name in required:
                self.bindings.append(Binding(prefix + name, operand))
                self.names.add(prefix + name)
        for binding in pattern.bindings:
            if binding.name in required:
                value = self.operand(binding.value, prefix, place)
                self.bindings.append(Binding(prefix + binding.name, value))
                self.names.add(prefix + binding.name)
        self.conditions += [self.moved(where, prefix, place) for where in pattern.conditions]
        return Reference(prefix + pattern.result)

    def is_number(self, operand: Operand) -> bool:
        if isinstance(operand, Reference):
            bound = (each.value for each in self.bindings if each.name == operand.name)
            return isinstance(next(bound, None), Number)
        return isinstance(operand, Number)

    def moved(self, where: Where, prefix: str, place: Span | None) -> Where:
        """`where`, which a called pattern says, at the place of the call."""
        found = Where(renamed(where.condition, prefix.__add__), where.reason, place)
        if where.span is not None:
            self.said[id(found)] = where.span
        return found
