"""Whether an operand always comes from what a parameter excludes: `x: not nn.relu`."""

from collections.abc import Mapping

from collage_dsl.graph.operators import operators
from collage_dsl.rules.pattern import (
    Binding,
    Call,
    Either,
    Excluded,
    FieldOf,
    Operand,
    Parameter,
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
            case Call(ops, optional=False):
                return kinds.issuperset(part.kinds) and all(map(is_excluded, ops))
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
