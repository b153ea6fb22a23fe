"""What a pattern never matches in a graph that is known, and how much a rule proposes in it."""

from collections.abc import Iterator, Mapping
from math import inf

from collage_dsl.graph import Form, Graph
from collage_dsl.graph.types import long_dtype, tensors
from collage_dsl.language.messages.findings import listed
from collage_dsl.language.reasoning.always import always_called
from collage_dsl.language.reasoning.pattern_shape import always_there
from collage_dsl.rules import (
    FusionRule,
    Host,
    OnlyValid,
    OnlyVariants,
    OpCallByKind,
    OpPredicate,
    Pattern,
    Tagged,
    Union,
)
from collage_dsl.rules.condition import And, Compare, Constant, Dtype, Expression, Within
from collage_dsl.rules.pattern import Binding, Call, Either, Operand, PatternCall, Reference, Repeat


def no_match(pattern: Pattern, graph: Graph, at: str | None) -> str:
    """Why `pattern` never matches in `graph`, or at its node `at`; empty if it may match."""
    return (
        _lacks_call(pattern, graph)
        or _lacks_constant(pattern, graph)
        or _lacks_dtype(pattern, graph)
        or _ends_otherwise(pattern, graph, at)
    )


def _lacks_call(pattern: Pattern, graph: Graph) -> str:
    there = {node.op for node in graph.nodes if node.form is Form.CALL}
    for call in always_called(pattern):
        if not call.kinds and there.isdisjoint(call.ops):
            return f"the graph has no call of {listed(call.ops[:3])}, as `{pattern.name}` needs"
    return ""


def _lacks_constant(pattern: Pattern, graph: Graph) -> str:
    if any(node.form in (Form.CONSTANT, Form.LITERAL) for node in graph.nodes):
        return ""
    results = (pattern.result, *pattern.others)
    always = always_there(pattern.parameters, pattern.bindings, results)
    for parameter in pattern.parameters:
        if parameter.constant and parameter.name in always:
            return f"the graph has no constant, as `{parameter.name}` of `{pattern.name}` must be"
    return ""


def _lacks_dtype(pattern: Pattern, graph: Graph) -> str:
    there = {each.dtype for node in graph.nodes for each in tensors(node.type)}
    if not all(map(long_dtype, there)):
        return ""  # A dtype that could not be inferred may be any.
    for where in pattern.conditions:
        for wanted in _dtypes(where.condition):
            if there.isdisjoint(map(long_dtype, wanted)):
                shown = listed(wanted)
                return f"the graph has no tensor of dtype {shown}, as `{pattern.name}` needs"
    return ""


def _dtypes(condition: Expression) -> Iterator[tuple[str, ...]]:
    """The dtypes of which some value has to have one, for each part that asks for a dtype."""
    match condition:
        case And(left, right):
            yield from _dtypes(left)
            yield from _dtypes(right)
        case Compare("==", Dtype(), Constant(str() as dtype)):
            yield (dtype,)
        case Within(Dtype(), Constant(tuple() as dtypes)):
            yield tuple(map(str, dtypes))


def _ends_otherwise(pattern: Pattern, graph: Graph, at: str | None) -> str:
    bindings = {binding.name: binding for binding in pattern.bindings}
    ops = called_operators(Reference(pattern.result), bindings)
    if at is None or not ops:
        return ""
    node = graph.nodes[graph.index(at)]
    if node.form is Form.CALL and node.op in ops:
        return ""
    what = f"a call of `{node.op}`" if node.form is Form.CALL else f"a {node.form.value}"
    return f"`{at}` is {what}, but a match of `{pattern.name}` ends with {listed(ops[:3])}"


def called_operators(operand: Operand, bindings: Mapping[str, Binding]) -> tuple[str, ...]:
    """
    The operators of one of which `operand` is a call in every match; empty if it may be something
    else.
    """
    match operand:
        case Reference(name) if name in bindings:
            return called_operators(bindings[name].value, bindings)
        case Call(ops, kinds=(), optional=False):
            return ops
        case PatternCall(pattern, optional=False):
            inside = {binding.name: binding for binding in pattern.bindings}
            return called_operators(Reference(pattern.result), inside)
        case Repeat(call, least) if least:
            return called_operators(call, bindings)
        case Either(choices):
            found = [called_operators(choice, bindings) for choice in choices]
            every = dict.fromkeys(op for ops in found for op in ops)
            return tuple(every) if all(found) else ()
        case _:
            return ()


def most_candidates(rule: FusionRule, graph: Graph) -> float:
    """The most candidates of `rule` in `graph`, if each is one call; infinite for other rules."""
    calls = [node for node in graph.nodes if node.form is Form.CALL]
    match rule:
        case OpCallByKind(kinds):
            return sum(node.kind in kinds for node in calls)
        case OpPredicate(_, ops):
            return sum(not ops or node.op in ops for node in calls)
        case Tagged(_, inner) | OnlyValid(inner) | OnlyVariants(inner):
            return most_candidates(inner, graph)
        case Union(rules):
            return sum(most_candidates(inner, graph) for inner in rules)
        case Host():
            return 0
        case _:
            return inf
