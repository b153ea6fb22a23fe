"""What is written in the operands of a pattern."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import assert_never

from collage_dsl.rules.condition import Where
from collage_dsl.rules.facts import has_predicate
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


def inner_operands(operand: Operand) -> tuple[Operand, ...]:
    match operand:
        case Reference() | Anything() | Number() | ListOf():
            return ()
        case Call() | PatternCall() | Flat():
            return operand.operands
        case TupleOf(fields):
            return fields
        case FieldOf(of) | TupleOfEach(of):
            return (of,)
        case PathFrom(_, origin):
            return (origin,)
        case Repeat(call):
            return (call,)
        case Either(choices):
            return choices
        case _:
            assert_never(operand)


def every_operand(operand: Operand) -> Iterator[Operand]:
    """`operand` and all operands in it, each before its own, from left to right."""
    waiting = [operand]
    while waiting:
        yield (one := waiting.pop())
        waiting += inner_operands(one)[::-1]


def with_inner(operand: Operand, change: Callable[[Operand], Operand]) -> Operand:
    """`operand` with the operands in it changed."""
    match operand:
        case Call(_, operands) | PatternCall(_, operands) | Flat(_, operands):
            return replace(operand, operands=tuple(map(change, operands)))
        case TupleOf(fields):
            return TupleOf(tuple(map(change, fields)))
        case FieldOf(of, index):
            return FieldOf(change(of), index)
        case TupleOfEach(field):
            return replace(operand, field=change(field))
        case PathFrom(_, origin):
            return replace(operand, origin=change(origin))
        case Repeat(call):
            changed = change(call)
            assert isinstance(changed, Call | PatternCall)
            return replace(operand, call=changed)
        case Either(choices):
            return Either(tuple(map(change, choices)))
        case Reference() | Anything() | Number() | ListOf():
            return operand
        case _:
            assert_never(operand)


def in_chain(call: Call | PatternCall, count: int) -> Operand:
    """`count` calls, each the first operand of the next; for 0, what the first would take."""
    found = call.operands[0]
    for _ in range(count):
        found = replace(call, operands=(found, *call.operands[1:]))
    return found


def _all_parts(operand: Operand, times: int = 1) -> Iterator[Operand]:
    """`operand` and what is written in it; what is repeated, twice."""
    for _ in range(times):
        yield operand
    is_repeated = isinstance(operand, Repeat | TupleOfEach)
    for part in inner_operands(operand):
        yield from _all_parts(part, 2 if is_repeated else times)


def written_operands(pattern: Pattern) -> Iterator[Operand]:
    for binding in pattern.bindings:
        yield from _all_parts(binding.value)


def wheres(pattern: Pattern) -> Iterator[Where]:
    yield from pattern.conditions
    for part in written_operands(pattern):
        if isinstance(part, Call):
            yield from part.attributes


def asks_predicates(pattern: Pattern) -> bool:
    """Whether a condition of `pattern`, or of a pattern that it calls, asks a predicate."""
    called = (part.pattern for part in written_operands(pattern) if isinstance(part, PatternCall))
    own = any(has_predicate(where.condition) for where in wheres(pattern))
    return own or any(map(asks_predicates, called))
