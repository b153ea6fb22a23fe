"""Bound how often values inside a match are used: all their uses are inside it too."""

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from math import inf

from collage_dsl.graph.operators import operators
from collage_dsl.language.messages.findings import count
from collage_dsl.language.reasoning.claims.relations import Claim, Relation
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.patterns.pattern_shape import references
from collage_dsl.language.reasoning.values.domain import between
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.rules.condition import Uses
from collage_dsl.rules.parts import every_operand, inner_operands
from collage_dsl.rules.pattern import (
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


def taken_claims(called: Sequence[Called]) -> Iterator[Claim]:
    """
    What a call takes is used by it, and by other calls that are of other operators; of the calls of
    a path, the first uses what the path is from. A tuple is used by the projection to each of its
    fields that a call takes.
    """
    users: dict[str, list[Called]] = {}
    for each in called:
        if not each.call.optional:
            for name in dict.fromkeys(each.operands[:1] if each.is_path else each.operands):
                others = users.setdefault(name, [])
                if not others or all(_are_different(each, other) for other in others):
                    others.append(each)
    for name, some in users.items():
        yield Claim(_taken(name, len(some)), some[-1])
    tensors = {name for each in called for name in _taken_by(each)}
    for each in called:
        fields = each.names.fields.get(each.result, {}).values()
        if projected := tensors.intersection(fields):
            yield Claim(_projected(len(projected)), each)


def _taken_by(called: Called) -> Iterator[str]:
    """The tensors that a call takes wherever the pattern matches."""
    places = range(len(called.operands))
    for at in places[:1] if called.call.optional or called.is_path else places:
        yield from called.tensors(at)


def _projected(least: int) -> Relation:
    said = f"{count(least, 'field')} of what {{op}} gives {'is' if least == 1 else 'are'} used"

    def narrow(called: Called, facts: Facts) -> None:
        facts.narrow(Uses(called.result), between(least, inf))

    return Relation(said, once=narrow)


def _are_different(one: Called, other: Called) -> bool:
    """Whether two calls are never the same call of a graph."""
    has_kinds = one.call.kinds or other.call.kinds
    return not has_kinds and set(one.call.ops).isdisjoint(other.call.ops)


@lru_cache(1024)
def _taken(name: str, least: int) -> Relation:
    said = "what {op} takes is used"
    if least > 1:
        said = f"{{op}} and {count(least - 1, 'other call')} use the same value"
    return Relation(said, once=lambda _, facts: facts.narrow(Uses(name), between(least, inf)))


def use_claims(pattern: Pattern, called: Sequence[Called]) -> Iterator[Claim]:
    """
    How often the named calls among `called` are used, if they cannot be used outside a match.

    Patterns with several results, flat calls, alternatives, repetitions, tuples of any length, or
    calls of patterns are left out.
    """
    if pattern.taps or pattern.others or not all(_is_simple(b.value) for b in pattern.bindings):
        return
    values = pattern.values
    results = set(_names_of(Reference(pattern.result), values))
    for each in called:
        is_inner = each.result in values and each.result not in results
        if is_inner and not each.call.optional and not each.call.shared:
            most = sum(_uses(node, each, pattern, values) for node in _after(each, values))
            times = "once" if most == 1 else f"at most {count(most, 'time')}"
            said = f"`{each.result}` is used {times}; `shared` after {{op}} allows other uses"
            yield Claim(Relation(said, once=partial(_used, most)), each)


def _names_of(operand: Operand, values: dict[str, Operand]) -> Iterator[str]:
    """The names of what `operand` may be, also where optional calls are absent."""
    match operand:
        case Reference(name):
            yield name
            if name in values:
                yield from _names_of(values[name], values)
        case Call(operands=(first, *_), optional=True) | PathFrom(origin=first, least=0):
            yield from _names_of(first, values)


def _used(most: int, called: Called, facts: Facts) -> None:
    facts.narrow(Uses(called.result), between(1, most))


_LEFT_OUT = (Flat, Either, PatternCall, Repeat, TupleOfEach)


def _is_simple(operand: Operand) -> bool:
    return not any(isinstance(one, _LEFT_OUT) for one in every_operand(operand))


def _is_chain(path: PathFrom) -> bool:
    """Whether each call on the path takes one value."""
    return not path.kinds and all(len(operators()[op].operands or ()) == 1 for op in path.ops)


def _after(called: Called, values: dict[str, Operand]) -> Iterator[Operand]:
    """The parts of the pattern that are not needed for the value of a call."""
    before = {called.result}
    waiting = [called.result]
    while waiting:
        inner = references(values[waiting.pop()]) & values.keys()
        waiting += inner - before
        before |= inner
    for name, value in values.items():
        if name not in before:
            yield from every_operand(value)


def _uses(part: Operand, called: Called, pattern: Pattern, values: dict[str, Operand]) -> int:
    """How many calls of a part of a pattern may use the value of a call, at most."""
    if isinstance(part, PathFrom) and not _is_chain(part):
        return part.most
    return any(_may_be(inner, called, pattern, values) for inner in inner_operands(part))


def _may_be(operand: Operand, called: Called, pattern: Pattern, values: dict[str, Operand]) -> bool:
    """Whether `operand` may be the value of a call, also by chance."""
    match operand:
        case Reference(name) if name in values:
            return name == called.result or _may_be(values[name], called, pattern, values)
        case Reference(name):
            parameter = pattern.parameter(name)
            return parameter is None or not parameter.constant
        case Call(ops, operands, optional=optional):
            instead = optional and _may_be(operands[0], called, pattern, values)
            is_same = called.call.kinds or not set(ops).isdisjoint(called.call.ops)
            return bool(instead or operand.kinds or is_same)
        case TupleOf() | FieldOf() | Number() | ListOf():
            return False
        case _:
            return True
