"""The operators in a pattern: how many there are, how deep, and what leads to what."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import assert_never

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


def references(operand: Operand, always: bool) -> Iterator[tuple[str, bool]]:
    """The names in `operand`, and whether they are there whenever it is matched."""
    match operand:
        case Reference(name):
            yield name, always
        case Call(operands=operands, optional=optional):
            for at, inner in enumerate(operands):
                yield from references(inner, always and not (optional and at > 0))
        case PatternCall(pattern, operands, optional):
            pairs = zip(pattern.parameters, operands, strict=True)
            for at, (parameter, inner) in enumerate(pairs):
                missing = parameter.optional or (optional and at > 0)
                yield from references(inner, always and not missing)
        case TupleOf(fields):
            for inner in fields:
                yield from references(inner, always)
        case FieldOf(inner):
            yield from references(inner, always)
        case Repeat(call, least):
            found = references(call if least else replace(call, optional=True), always)
            yield from found
        case Either(choices):
            ways = [set(references(choice, always)) for choice in choices]
            for name in sorted({name for way in ways for name, _ in way}):
                yield name, all((name, True) in way for way in ways)
        case Anything() | Number():
            pass
        case _:
            assert_never(operand)


def calls(operand: Operand) -> Iterator[Call]:
    """The operator calls in `operand`; those inside called patterns are not in it."""
    match operand:
        case Call(operands=operands) | PatternCall(operands=operands):
            if isinstance(operand, Call):
                yield operand
            for inner in operands:
                yield from calls(inner)
        case TupleOf(fields) | Either(fields):
            for inner in fields:
                yield from calls(inner)
        case FieldOf(inner) | Repeat(inner):
            yield from calls(inner)
        case Reference() | Anything() | Number():
            pass
        case _:
            assert_never(operand)


def called(pattern: Pattern) -> Iterator[Pattern]:
    """The patterns that `pattern` calls, each before those that call it; some repeatedly."""
    for binding in pattern.bindings:
        yield from _called(binding.value)


def _called(operand: Operand) -> Iterator[Pattern]:
    match operand:
        case PatternCall(pattern, operands):
            yield from called(pattern)
            yield pattern
            for inner in operands:
                yield from _called(inner)
        case Call(operands=operands) | TupleOf(operands) | Either(operands):
            for inner in operands:
                yield from _called(inner)
        case FieldOf(inner) | Repeat(inner):
            yield from _called(inner)
        case Reference() | Anything() | Number():
            pass
        case _:
            assert_never(operand)


def depth(operand: Operand, depths: Mapping[str, int], of: Mapping[int, int]) -> int:
    """
    The number of calls on the longest way from `operand` to a parameter. `depths` are those
    of earlier values, `of` those of patterns, by identity.
    """
    match operand:
        case Reference(name):
            return depths.get(name, 0)
        case Call(operands=operands):
            return 1 + max((depth(inner, depths, of) for inner in operands), default=0)
        case PatternCall(pattern, operands):
            above = max((depth(inner, depths, of) for inner in operands), default=0)
            return 1 + of[id(pattern)] + above
        case TupleOf(fields):
            return 1 + max(depth(inner, depths, of) for inner in fields)
        case FieldOf(inner):
            return 1 + depth(inner, depths, of)
        case Repeat(call, _, most):
            base = depth(call.operands[0], depths, of)
            return base + most * (depth(call, depths, of) - base)
        case Either(choices):
            return max(depth(choice, depths, of) for choice in choices)
        case Anything() | Number():
            return 0
        case _:
            assert_never(operand)


def size(operand: Operand, of: Mapping[int, int]) -> int:
    """The number of calls in `operand`, with those of the patterns it calls."""
    match operand:
        case Call(operands=operands):
            return 1 + sum(size(inner, of) for inner in operands)
        case PatternCall(pattern, operands):
            return 1 + of[id(pattern)] + sum(size(inner, of) for inner in operands)
        case TupleOf(fields):
            return 1 + sum(size(inner, of) for inner in fields)
        case FieldOf(inner):
            return 1 + size(inner, of)
        case Repeat(call, _, most):
            return most * size(call, of)
        case Either(choices):
            return sum(size(choice, of) for choice in choices)
        case Reference() | Anything() | Number():
            return 0
        case _:
            assert_never(operand)
