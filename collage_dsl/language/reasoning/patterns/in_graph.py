"""Why a pattern never matches in a graph that is known."""

from collections.abc import Iterator

from collage_dsl.graph import Form, Graph
from collage_dsl.graph.types import long_dtype, tensors
from collage_dsl.language.messages.findings import listed
from collage_dsl.language.reasoning.patterns.always import always_called, operators_at
from collage_dsl.language.reasoning.patterns.pattern_shape import always_bound
from collage_dsl.rules import (
    Pattern,
)
from collage_dsl.rules.condition import Compare, Constant, Dtype, Expression, Within, all_of
from collage_dsl.rules.pattern import Reference


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
    always = always_bound(pattern)
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
    for part in all_of(condition):
        match part:
            case Compare("==", Dtype(), Constant(str() as dtype)):
                yield (dtype,)
            case Within(Dtype(), Constant(tuple() as dtypes)):
                yield tuple(map(str, dtypes))


def _ends_otherwise(pattern: Pattern, graph: Graph, at: str | None) -> str:
    bindings = {binding.name: binding for binding in pattern.bindings}
    ops = operators_at(Reference(pattern.result), bindings)
    if at is None or not ops:
        return ""
    node = graph.nodes[graph.index(at)]
    if node.form is Form.CALL and node.op in ops:
        return ""
    what = f"a call of `{node.op}`" if node.form is Form.CALL else f"a {node.form.value}"
    return f"`{at}` is {what}, but a match of `{pattern.name}` ends with {listed(ops[:3])}"
