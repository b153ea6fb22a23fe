"""Compute an upper bound of the operator calls in a match of a pattern."""

from collections.abc import Iterable

from collage_dsl.rules.flattening import MOST_CALLS
from collage_dsl.rules.parts import inner_operands
from collage_dsl.rules.pattern import (
    Call,
    Either,
    Flat,
    Operand,
    PathFrom,
    Pattern,
    PatternCall,
    Repeat,
    TupleOfEach,
)


def largest(pattern: Pattern) -> int:
    """
    No match has more operator calls than this. Optional calls are counted as present, repeated
    ones with the most repetitions. All matches may have fewer if two calls are always one node.
    """
    return _sum(binding.value for binding in pattern.bindings)


def _sum(operands: Iterable[Operand]) -> int:
    return sum(map(_calls, operands))


def _calls(operand: Operand) -> int:
    match operand:
        case Call(operands=inner) | PatternCall(operands=inner):
            return _called(operand) + _sum(inner)
        case Repeat(call, _, most):
            return _calls(call.operands[0]) + most * (_called(call) + _sum(call.operands[1:]))
        case Flat(_, operands):
            return MOST_CALLS + _sum(operands)
        case PathFrom(_, origin, _, most):
            return most + _calls(origin)
        case TupleOfEach(field, _, most):
            return most * _calls(field)
        case Either(choices):
            return max(map(_calls, choices))
        case _:
            return _sum(inner_operands(operand))


def _called(call: Call | PatternCall) -> int:
    return largest(call.pattern) if isinstance(call, PatternCall) else 1
