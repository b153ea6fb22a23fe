"""Compute the size, depth and required names of a pattern, and the names and calls in it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, reduce
from operator import and_, or_
from typing import assert_never

from collage_dsl.rules.parts import inner_operands
from collage_dsl.rules.pattern import (
    Anything,
    Binding,
    Call,
    Either,
    FieldOf,
    Flat,
    ListOf,
    Number,
    Operand,
    Parameter,
    PathFrom,
    Pattern,
    PatternCall,
    Reference,
    Repeat,
    TupleOf,
    TupleOfEach,
)


def references(operand: Operand) -> frozenset[str]:
    """The names in `operand`."""
    match operand:
        case Reference(name):
            return frozenset({name})
        case Call(operands=inner) | PatternCall(operands=inner) | Flat(operands=inner):
            return frozenset().union(*map(references, inner))
        case TupleOf(inner) | Either(inner):
            return frozenset().union(*map(references, inner))
        case FieldOf(inner) | Repeat(inner) | TupleOfEach(inner) | PathFrom(_, inner):
            return references(inner)
        case Anything() | Number() | ListOf():
            return frozenset()
        case _:
            assert_never(operand)


def required(operand: Operand, known: Callable[[str], int]) -> int:
    """
    The names that are bound however `operand` is matched, as bits.

    `known` gives, for each earlier name, its own bit and the bits of the names that it requires.
    """
    match operand:
        case Reference(name):
            return known(name)
        case Call(operands=operands, optional=optional):
            needed = operands[:1] if optional else operands
        case PatternCall(pattern, operands, optional):
            present = _required_inside(pattern, [required(inner, known) for inner in operands])
            return present & required(operands[0], known) if optional else present
        case TupleOf(fields) | Flat(_, fields):
            needed = fields
        case FieldOf(inner) | TupleOfEach(inner) | PathFrom(_, inner):
            needed = (inner,)
        case Repeat(call, least):
            needed = (call if least else replace(call, optional=True),)
        case Either(choices):
            return reduce(and_, (required(choice, known) for choice in choices))
        case Anything() | Number() | ListOf():
            needed = ()
        case _:
            assert_never(operand)
    return reduce(or_, (required(inner, known) for inner in needed), 0)


@lru_cache(1024)
def always_there(
    parameters: tuple[Parameter, ...], bindings: tuple[Binding, ...], results: tuple[str, ...]
) -> frozenset[str]:
    """The names that are bound in every match of `results`, including `results`."""
    bits = {parameter.name: 1 << at for at, parameter in enumerate(parameters)}
    known: dict[str, int] = {}
    for binding in bindings:
        known[binding.name] = required(binding.value, lambda name: bits[name] | known.get(name, 0))
        bits[binding.name] = 1 << len(bits)
    found = reduce(or_, (bits[result] | known.get(result, 0) for result in results), 0)
    return frozenset(name for name, bit in bits.items() if found & bit)


def may_be_there(pattern: Pattern) -> frozenset[str]:
    """The names that some match of `pattern` may bind."""
    values = {binding.name: binding.value for binding in pattern.bindings}
    found: set[str] = set()
    waiting = [pattern.result, *pattern.others]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += references(values[name]) if name in values else ()
    return frozenset(found)


def _required_inside(pattern: Pattern, given: list[int]) -> int:
    """The names required by a call of `pattern`, whose operands require the names `given`."""
    known = dict(zip((parameter.name for parameter in pattern.parameters), given, strict=True))
    for binding in pattern.bindings:
        known[binding.name] = required(binding.value, lambda name: known[name])
    always = (known[parameter.name] for parameter in pattern.parameters if not parameter.optional)
    return reduce(or_, always, known[pattern.result])


def result_calls(pattern: Pattern) -> Iterator[Call]:
    """The operator calls in `pattern` whose values are its results wherever they match."""
    values = {binding.name: binding.value for binding in pattern.bindings}
    waiting: list[Operand] = [Reference(name) for name in (pattern.result, *pattern.others)]
    while waiting:
        match waiting.pop():
            case Reference(name) if name in values:
                waiting.append(values[name])
            case Either(choices):
                waiting += choices
            case Call() as call:
                yield call


def calls(operand: Operand) -> Iterator[Call]:
    """The operator calls in `operand`, without those inside the patterns that it calls."""
    match operand:
        case Call(operands=operands) | PatternCall(operands=operands):
            if isinstance(operand, Call):
                yield operand
            for inner in operands:
                yield from calls(inner)
        case TupleOf(fields) | Either(fields) | Flat(_, fields):
            for inner in fields:
                yield from calls(inner)
        case FieldOf(inner) | Repeat(inner) | TupleOfEach(inner) | PathFrom(_, inner):
            yield from calls(inner)
        case Reference() | Anything() | Number() | ListOf():
            pass
        case _:
            assert_never(operand)


def called(pattern: Pattern) -> Iterator[Pattern]:
    """The patterns that `pattern` calls, each before its callers; some several times."""
    for binding in pattern.bindings:
        yield from _called(binding.value)


def _called(operand: Operand) -> Iterator[Pattern]:
    match operand:
        case PatternCall(pattern, operands):
            yield from called(pattern)
            yield pattern
            for inner in operands:
                yield from _called(inner)
        case Call(_, operands) | Flat(_, operands) | TupleOf(operands) | Either(operands):
            for inner in operands:
                yield from _called(inner)
        case FieldOf(inner) | Repeat(inner) | TupleOfEach(inner) | PathFrom(_, inner):
            yield from _called(inner)
        case Reference() | Anything() | Number() | ListOf():
            pass
        case _:
            assert_never(operand)


def pattern_calls(operand: Operand) -> Iterator[PatternCall]:
    """The calls of patterns that are written in `operand`."""
    if isinstance(operand, PatternCall):
        yield operand
    for inner in inner_operands(operand):
        yield from pattern_calls(inner)


def depth(operand: Operand, depths: Mapping[str, int], of: Mapping[int, int]) -> int:
    """
    The number of calls and alternatives on the longest path from `operand` to a parameter.

    `depths` has the depths of earlier values, `of` those of patterns, by `id`.
    """
    match operand:
        case Reference(name):
            return depths.get(name, 0)
        case Call(operands=operands) | Flat(operands=operands):
            return 1 + max((depth(inner, depths, of) for inner in operands), default=0)
        case PatternCall(pattern, operands):
            above = max((depth(inner, depths, of) for inner in operands), default=0)
            return 1 + of[id(pattern)] + above
        case TupleOf(fields):
            return 1 + max(depth(inner, depths, of) for inner in fields)
        case PathFrom(_, inner):  # matched without recursion
            return 1 + depth(inner, depths, of)
        case FieldOf(inner) | TupleOfEach(inner):
            return 1 + depth(inner, depths, of)
        case Repeat(call, _, most):
            base = depth(call.operands[0], depths, of)
            return base + most * (depth(call, depths, of) - base)
        case Either(choices):
            return 1 + max(depth(choice, depths, of) for choice in choices)
        case Anything() | Number() | ListOf():
            return 0
        case _:
            assert_never(operand)


def size(operand: Operand, of: Mapping[int, int]) -> int:
    """The number of calls in `operand`, including those of the patterns it calls."""
    match operand:
        case Call(operands=operands) | Flat(operands=operands):
            return 1 + sum(size(inner, of) for inner in operands)
        case PatternCall(pattern, operands):
            return 1 + of[id(pattern)] + sum(size(inner, of) for inner in operands)
        case TupleOf(fields):
            return 1 + sum(size(inner, of) for inner in fields)
        case FieldOf(inner):
            return 1 + size(inner, of)
        case Repeat(call, _, most):
            return most * size(call, of)
        case PathFrom(_, inner, _, most):
            return most + size(inner, of)
        case TupleOfEach(inner, _, most):
            return 1 + most * size(inner, of)
        case Either(choices):
            return sum(size(choice, of) for choice in choices)
        case Reference() | Anything() | Number() | ListOf():
            return 0
        case _:
            assert_never(operand)
