"""Write out the patterns that a pattern calls, so that what they say is examined together."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import is_

from collage_dsl.language.reasoning.patterns.pattern_shape import always_bound
from collage_dsl.language.reasoning.values.terms import renamed
from collage_dsl.rules.condition import Where
from collage_dsl.rules.parts import with_inner
from collage_dsl.rules.pattern import (
    Anything,
    Binding,
    Call,
    FieldOf,
    Flat,
    ListOf,
    Number,
    Operand,
    Pattern,
    PatternCall,
    Reference,
    Repeat,
    TupleOf,
)
from collage_dsl.source import Span

MOST_CALLS = 40
"""Calls of patterns after this many are not written out."""


_SIMPLE = Reference | Number | ListOf | Anything
"""What matches in one way only, but for `_`, of which nothing is known."""


@dataclass(frozen=True, slots=True)
class WrittenOut:
    """
    `pattern` without calls of patterns, as far as they are part of every match, and the names that
    every match binds. `said` has the place in the called pattern of each condition that comes from
    one, by `id`. Those conditions and the calls of operators have the place of the call. `places`
    are those of calls that are given no number, so that what holds of them always holds; `calls`
    those of all. `optional` are the optional parameters of the patterns that are called.
    """

    pattern: Pattern
    required: frozenset[str]
    said: Mapping[int, Span]
    places: frozenset[Span]
    calls: frozenset[Span] = frozenset()
    count: int = 0
    """How many calls of patterns are written out."""
    optional: frozenset[str] = frozenset()


def written_out(pattern: Pattern, before: WrittenOut | None = None) -> WrittenOut:
    """
    `pattern` is written out. If it is what was written out `before` with a part of it replaced,
    what was said then is still said.
    """
    required, writer = always_bound(pattern), _Writer()
    if before is not None:
        required |= before.required
        writer = _Writer(said={**before.said}, count=before.count, is_again=True)
        writer.optional |= before.optional
    already = writer.count
    for binding in pattern.bindings:
        value = binding.value
        if binding.name in required:
            value = writer.operand(value, "", None)
        writer.bindings.append(Binding(binding.name, value))
    if before is not None:
        writer.places |= before.places
        writer.calls |= before.calls
    places, calls = frozenset(writer.places), frozenset(writer.calls)
    optional = frozenset(writer.optional)
    if writer.count == already:
        return WrittenOut(pattern, required, writer.said, places, calls, already, optional)
    whole = replace(
        pattern,
        bindings=tuple(writer.bindings),
        conditions=(*writer.conditions, *pattern.conditions),
    )
    names = required | writer.names
    return WrittenOut(whole, names, writer.said, places, calls, writer.count, optional)


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
    calls: set[Span] = field(default_factory=set)
    optional: set[str] = field(default_factory=set)
    count: int = 0
    is_again: bool = False
    """Whether repeated calls that the pattern has itself are written out already."""

    def operand(self, operand: Operand, prefix: str, place: Span | None) -> Operand:
        """`operand` with calls written out. `prefix` is that of its names, `place` of the call."""
        match operand:
            case Reference(name):
                return Reference(prefix + name) if prefix else operand
            case Call(operands=operands, attributes=attributes, optional=optional):
                inside = self.operands(operands, prefix, place, only_first=optional)
                if place is None:
                    is_same = all(map(is_, inside, operands))
                    return operand if is_same else replace(operand, operands=inside)
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
                required = always_bound(pattern)
                inside = tuple(
                    (self.operand if parameter.name in required else self.as_written)(
                        each, prefix, place
                    )
                    for parameter, each in zip(pattern.parameters, operands, strict=True)
                )
                return self.body(pattern, required, inside, place or span)
            case Flat(operands=operands):
                inside = self.operands(operands, prefix, place)
                return replace(operand, operands=inside, span=place or operand.span)
            case TupleOf(fields):
                return TupleOf(self.operands(fields, prefix, place))
            case FieldOf(of, index):
                return FieldOf(self.operand(of, prefix, place), index)
            case Repeat() if prefix or not self.is_again:
                return self.repeated(operand, prefix, place)
            case _:
                return self.as_written(operand, prefix, place)

    def as_written(self, operand: Operand, prefix: str, place: Span | None) -> Operand:
        """`operand` without calls written out, since it may be absent, or match in several ways."""
        if not prefix:
            return operand
        if isinstance(operand, Reference):
            return Reference(prefix + operand.name)
        found = with_inner(operand, lambda inner: self.as_written(inner, prefix, place))
        match found:
            case Call(attributes=attributes) if place is not None:
                moved = tuple(self.moved(where, prefix, place) for where in attributes)
                return replace(found, attributes=moved, span=place)
            case Flat() | PatternCall() if place is not None:
                return replace(found, span=place)
            case _:
                return found

    def operands(
        self,
        operands: tuple[Operand, ...],
        prefix: str,
        place: Span | None,
        *,
        only_first: bool = False,
    ) -> tuple[Operand, ...]:
        """Operands other than the first of an optional call may be absent."""
        if not operands:
            return ()
        first, *others = operands
        rest = self.as_written if only_first else self.operand
        return (
            self.operand(first, prefix, place),
            *(rest(each, prefix, place) for each in others),
        )

    def repeated(self, repeat: Repeat, prefix: str, place: Span | None) -> Operand:
        """
        Bind what the first call takes, the first two calls, and all but the last call, as far as
        they are part of every match. Gives the last call.

        Calls that take more than names and constants are not written out: what is written once may
        match in another way in each. Nor are calls by kind, which say nothing alone.
        """
        self.count += 1
        start, first, rest = (f"{self.count}:{name}" for name in ("start", "first", "rest"))
        self.bind(prefix + start, self.operand(repeat.call.operands[0], prefix, place))
        others = repeat.call.operands[1:]
        call = replace(repeat.call, operands=(Reference(start), *others))
        is_simple = all(isinstance(each, _SIMPLE) for each in others)
        of_kind = isinstance(call, Call) and call.kinds
        if not repeat.least or not is_simple or of_kind:
            return self.as_written(replace(repeat, call=call), prefix, place)
        if repeat.most == 1:
            return self.operand(call, prefix, place)
        self.bind(prefix + first, self.operand(call, prefix, place))
        second = replace(call, operands=(Reference(first), *others), span=repeat.span)
        if repeat.most == repeat.least == 2:
            return self.operand(second, prefix, place)
        if repeat.least > 1:
            self.bind(prefix + f"{first}+", self.operand(second, prefix, place))
        fewer = replace(repeat, call=call, least=repeat.least - 1, most=repeat.most - 1)
        self.bind(prefix + rest, self.as_written(fewer, prefix, place))
        last = replace(call, operands=(Reference(rest), *others))
        return self.operand(last, prefix, place)

    def bind(self, name: str, value: Operand) -> None:
        self.bindings.append(Binding(name, value))
        self.names.add(name)

    def body(
        self,
        pattern: Pattern,
        required: frozenset[str],
        operands: tuple[Operand, ...],
        place: Span | None,
    ) -> Operand:
        """
        Write `pattern`, with these names `required`, out with its parameters bound to `operands`.
        Gives its result.
        """
        self.count += 1
        self.calls |= {place} if place is not None else set()
        if place is not None and not any(map(self.is_number, operands)):
            self.places.add(place)
        prefix = f"{self.count}:"
        given = zip((parameter.name for parameter in pattern.parameters), operands, strict=True)
        for name, operand in given:
            self.bindings.append(Binding(prefix + name, operand))
        for binding in pattern.bindings:
            write = self.operand if binding.name in required else self.as_written
            value = write(binding.value, prefix, place)
            self.bindings.append(Binding(prefix + binding.name, value))
        self.names |= {prefix + name for name in required}
        self.optional |= {prefix + each.name for each in pattern.parameters if each.optional}
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
