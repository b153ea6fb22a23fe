"""Find the operators that every match of a pattern calls, also those of patterns it calls."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from collage_dsl.rules.parts import inner_operands
from collage_dsl.rules.pattern import (
    Binding,
    Call,
    Either,
    Operand,
    Pattern,
    PatternCall,
    Reference,
    Repeat,
)


def always_called(pattern: Pattern) -> Iterator[Call]:
    """
    Calls that are in every match. Two of them may be the same node. Those in alternatives, and
    those of `flat` calls, are left out.
    """
    frame = _Frame(pattern)
    for name in pattern.results:
        yield from frame.named(name)


@dataclass(slots=True)
class _Frame:
    """A pattern, and those of its values whose calls have been found."""

    pattern: Pattern
    seen: set[str] = field(default_factory=set)

    def named(self, name: str) -> Iterator[Call]:
        if name in self.seen:
            return
        self.seen.add(name)
        for binding in self.pattern.bindings:
            if binding.name == name:
                yield from self.within(binding.value)

    def within(self, operand: Operand) -> Iterator[Call]:
        match operand:
            case Reference(name):
                yield from self.named(name)
            case Call(optional=True) | PatternCall(optional=True):
                yield from self.within(operand.operands[0])
            case Repeat(call, least):
                yield from self.within(call if least else call.operands[0])
            case Call(operands=operands):
                yield operand
                yield from self.all(operands)
            case PatternCall(pattern, operands):
                yield from always_called(pattern)
                given = zip(pattern.parameters, operands, strict=True)
                yield from self.all(inner for parameter, inner in given if not parameter.optional)
            case Either():
                pass
            case _:
                yield from self.all(inner_operands(operand))

    def all(self, operands: Iterable[Operand]) -> Iterator[Call]:
        for operand in operands:
            yield from self.within(operand)


def operators_at(operand: Operand, bindings: Mapping[str, Binding]) -> tuple[str, ...]:
    """
    The operators of one of which `operand` is a call in every match; empty if it may be something
    else.
    """
    match operand:
        case Reference(name) if name in bindings:
            return operators_at(bindings[name].value, bindings)
        case Call(ops, kinds=(), optional=False):
            return ops
        case PatternCall(pattern, optional=False):
            inside = {binding.name: binding for binding in pattern.bindings}
            return operators_at(Reference(pattern.result), inside)
        case Repeat(call, least) if least:
            return operators_at(call, bindings)
        case Either(choices):
            found = [operators_at(choice, bindings) for choice in choices]
            every = dict.fromkeys(op for ops in found for op in ops)
            return tuple(every) if all(found) else ()
        case _:
            return ()
