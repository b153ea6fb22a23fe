"""Compute the size, depth and required names of a pattern, and the names and calls in it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, reduce
from itertools import chain
from operator import and_, or_
from typing import assert_never

from collage_dsl.rules.parts import every_operand, inner_operands, written_operands
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
    return frozenset(one.name for one in every_operand(operand) if isinstance(one, Reference))


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
        case Repeat(call, least):
            needed = (call if least else replace(call, optional=True),)
        case Either(choices):
            return reduce(and_, (required(choice, known) for choice in choices))
        case _:
            needed = inner_operands(operand)
    return reduce(or_, (required(inner, known) for inner in needed), 0)


@lru_cache(1024)
def always_there(
    parameters: tuple[Parameter, ...], bindings: tuple[Binding, ...], results: tuple[str, ...]
) -> frozenset[str]:
    """The names that are bound in every match of `results`, including `results`."""
    bits = {parameter.name: 1 << at for at, parameter in enumerate(parameters)}
    known: dict[str, int] = {}
    for binding in bindings:
        known[binding.name] = required(
            binding.value, lambda name: bits.get(name, 0) | known.get(name, 0)
        )
        bits[binding.name] = 1 << len(bits)
    found = reduce(or_, (bits[result] | known.get(result, 0) for result in results), 0)
    return frozenset(name for name, bit in bits.items() if found & bit)


def always_bound(pattern: Pattern) -> frozenset[str]:
    """The names that every match of `pattern` binds."""
    return always_there(pattern.parameters, pattern.bindings, pattern.results)


def may_be_there(pattern: Pattern) -> frozenset[str]:
    """The names that some match of `pattern` may bind."""
    values = pattern.values
    found: set[str] = set()
    waiting = [*pattern.results]
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
    values = pattern.values
    waiting: list[Operand] = [Reference(name) for name in pattern.results]
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
    return (one for one in every_operand(operand) if isinstance(one, Call))


def called(pattern: Pattern) -> Iterator[Pattern]:
    """The patterns that `pattern` calls, each before its callers; some several times."""
    for binding in pattern.bindings:
        for call in pattern_calls(binding.value):
            yield from called(call.pattern)
            yield call.pattern


def with_called(pattern: Pattern) -> tuple[Pattern, ...]:
    """`pattern`, and the patterns that it calls; some several times."""
    return (pattern, *called(pattern))


def written_in_all(pattern: Pattern) -> Iterator[Operand]:
    """What is written in `pattern` and in the patterns that it calls."""
    return chain.from_iterable(map(written_operands, with_called(pattern)))


def pattern_calls(operand: Operand) -> Iterator[PatternCall]:
    """The calls of patterns that are written in `operand`."""
    return (one for one in every_operand(operand) if isinstance(one, PatternCall))


def depth(operand: Operand, depths: Mapping[str, int], of: Mapping[int, int]) -> int:
    """
    The number of calls and alternatives on the longest path from `operand` to a parameter.

    `depths` has the depths of earlier values, `of` those of patterns, by `id`.
    """
    match operand:
        case Reference(name):
            return depths.get(name, 0)
        case Anything() | Number() | ListOf():
            return 0
        case Repeat(call, _, most):
            base = depth(call.operands[0], depths, of)
            return base + most * (depth(call, depths, of) - base)
        case _:  # a path is matched without recursion
            own = 1 + of[id(operand.pattern)] if isinstance(operand, PatternCall) else 1
            inner = (depth(one, depths, of) for one in inner_operands(operand))
            return own + max(inner, default=0)


def size(operand: Operand, of: Mapping[int, int]) -> int:
    """The number of calls in `operand`, including those of the patterns it calls."""
    inside = sum(size(inner, of) for inner in inner_operands(operand))
    match operand:
        case PatternCall(pattern):
            return 1 + of[id(pattern)] + inside
        case Call() | Flat() | TupleOf() | FieldOf():
            return 1 + inside
        case PathFrom(most=most):
            return most + inside
        case Repeat(most=most):
            return most * inside
        case TupleOfEach(most=most):
            return 1 + most * inside
        case Either() | Reference() | Anything() | Number() | ListOf():
            return inside
        case _:
            assert_never(operand)
