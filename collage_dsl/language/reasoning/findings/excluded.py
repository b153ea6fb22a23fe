"""Whether an operand always comes from what a parameter excludes: `x: not nn.relu`."""

from collections.abc import Mapping

from collage_dsl.graph import Kind
from collage_dsl.graph.operators import CALL_TIR, operators
from collage_dsl.language.reasoning.findings.value_sorts import asked_values
from collage_dsl.rules.pattern import (
    Binding,
    Call,
    Either,
    Excluded,
    FieldOf,
    Number,
    Operand,
    Parameter,
    PathFrom,
    PatternCall,
    Reference,
    Repeat,
)


def comes_from(
    operand: Operand,
    excluded: Excluded,
    parameters: Mapping[str, Parameter],
    bindings: Mapping[str, Binding],
) -> bool:
    """Whether every value that `operand` can be comes from what is `excluded`."""
    known: dict[str, bool] = {}
    kinds = frozenset(excluded.kinds)

    def is_excluded(op: str) -> bool:
        return op in excluded.ops or operators()[op].kinds <= kinds

    def follows(part: Operand) -> bool:
        match part:
            case Reference(name):
                if name not in known:
                    known[name] = named(name)
                return known[name]
            case Call(("call_tir",), optional=False, kinds=()) if not kinds.issuperset(Kind):
                asked = {Kind[str(kind).upper()] for kind in asked_values(part, "op_pattern")}
                return CALL_TIR in excluded.ops or (bool(asked) and asked <= kinds)
            case Call(ops, optional=False):
                return kinds.issuperset(part.kinds) and all(map(is_excluded, ops))
            case PathFrom(ops, least=least) if least > 0:
                return kinds.issuperset(part.kinds) and all(map(is_excluded, ops))
            case Number():
                return excluded.constants
            case PatternCall(pattern, optional=False):
                inside = {each.name: each for each in pattern.bindings}
                result = Reference(pattern.result)
                return comes_from(result, excluded, {}, inside)
            case FieldOf(Call() | Reference() as of):
                return follows(of)
            case Repeat(Call() as call, least) if least > 0:
                return follows(call)
            case Either(choices):
                return all(map(follows, choices))
            case _:
                return False

    def named(name: str) -> bool:
        if name in bindings:
            return follows(bindings[name].value)
        return name in parameters and parameters[name].constant and excluded.constants

    return follows(operand)
