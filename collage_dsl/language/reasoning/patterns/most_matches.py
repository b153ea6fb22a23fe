"""How often a pattern can match in a graph that is known."""

from math import inf, prod

from collage_dsl.graph import Form, Graph
from collage_dsl.graph.operators import is_commutative
from collage_dsl.language.reasoning.patterns.always import operators_at
from collage_dsl.rules.pattern import (
    Anything,
    Call,
    Either,
    FieldOf,
    ListOf,
    Number,
    Operand,
    Pattern,
    PatternCall,
    Reference,
    TupleOf,
)


def most_matches(pattern: Pattern, graph: Graph, at: str | None = None) -> float:
    """The most matches of `pattern` in `graph`, or at its node `at`; infinite if not known."""
    bindings = {binding.name: binding for binding in pattern.bindings}
    ops = operators_at(Reference(pattern.result), bindings)
    if not ops:
        return inf
    calls = (node for node in graph.nodes if node.form is Form.CALL and node.op in ops)
    ends = sum(at in (None, node.name) for node in calls)
    return ends * _most_ways(pattern) if ends else 0


def _most_ways(pattern: Pattern) -> float:
    """In how many ways `pattern` can match at a node, at most."""
    if pattern.others:
        return inf
    return prod(_ways(binding.value) for binding in pattern.bindings)


def _ways(operand: Operand) -> float:
    match operand:
        case Reference() | Anything() | Number() | ListOf():
            return 1
        case Call(ops, operands, kinds=()):
            orders = 1 if operand.ordered or not any(map(is_commutative, ops)) else 2
            return (1 + operand.optional) * orders * prod(map(_ways, operands))
        case PatternCall(pattern, operands):
            return (1 + operand.optional) * _most_ways(pattern) * prod(map(_ways, operands))
        case TupleOf(fields):
            return prod(map(_ways, fields))
        case FieldOf(inner):
            return _ways(inner)
        case Either(choices):
            return sum(map(_ways, choices))
        case _:
            return inf
