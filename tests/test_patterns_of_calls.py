"""What a check says of a pattern with all that is known of one call, right and wrong."""

import json
from collections.abc import Iterator
from itertools import chain

import numpy as np
import pytest

from collage_dsl.graph import Attribute, Form, Graph, Node, TensorType, TupleType
from collage_dsl.graph.types import short_dtype
from collage_dsl.language import check
from collage_dsl.source import Source
from tests.cases import sample
from tests.test_inference import graph_of, lines, ours

NEVER = lines("Calls that no pattern matches, though TVM infers a type")

CALLS = [call for call in lines("Types are those that TVM infers") if call not in NEVER]

NOT_FOUND = lines("Calls whose wrong results are not found")

RARE = lines("Calls that a pattern matches only if it asks for them")


def pattern(graph: Graph, *conditions: str, unsaid: frozenset[str] = frozenset()) -> str:
    """
    A pattern that says all that is known of the last call in `graph`, and `conditions`; without
    the attributes and the shapes of operands that are `unsaid`, and the dimensions of `x[*]`.
    """
    call = graph.nodes[graph.outputs[0]]
    parameters = [
        node.name if node.name in unsaid else f"{node.name}: {shape(node, unsaid)}"
        for node in graph.nodes
        if node.form is Form.INPUT
    ]
    operands = ", ".join(operand(graph, graph.nodes[at]) for at in call.inputs)
    attrs = [
        f"{name} == {written(value)}" for name, value in call.attrs.items() if name not in unsaid
    ]
    said = f" [{', '.join(attrs)}]" if attrs else ""
    first = f"y = {call.op}({operands}){said};"
    if isinstance(call.type, TupleType):
        first = f"s = {call.op}({operands}){said}; y = s.0;"
    dtypes = [
        f"dtype({node.name}) == {short_dtype(node.type.dtype)}"
        for node in graph.nodes
        if node.form is Form.INPUT and isinstance(node.type, TensorType)
    ]
    where = "".join(f" where {condition};" for condition in (*dtypes, *conditions))
    return f"collage 1;\npattern p({', '.join(parameters)}) {{ {first}{where} yield y; }}\n"


def shape(node: Node, unsaid: frozenset[str]) -> str:
    assert isinstance(node.type, TensorType)
    dims = node.type.shape or ()
    return f"[{', '.join('_' if f'{node.name}[*]' in unsaid else str(dim) for dim in dims)}]"


def operand(graph: Graph, node: Node) -> str:
    match node.form:
        case Form.LITERAL:
            assert isinstance(node.value, int | float | tuple)
            return written(node.value)
        case Form.CONSTANT:
            return written(np.asarray(node.value).item())
        case Form.TUPLE:
            names = [graph.nodes[at].name for at in node.inputs]
            return f"({', '.join(names)}{',' if len(names) == 1 else ''})"
        case _:
            return node.name


def written(value: Attribute) -> str:
    match value:
        case None:
            return "none"
        case tuple():
            return f"[{', '.join(map(written, value))}]"
        case str():
            return json.dumps(short_dtype(value))
        case _:
            return json.dumps(value)


def findings(text: str) -> list[str]:
    return [each.code for each in check(Source("pattern", text))]


def results(graph: Graph) -> TensorType:
    type_ = graph.nodes[graph.outputs[0]].type
    first = type_.fields[0] if isinstance(type_, TupleType) else type_
    assert isinstance(first, TensorType)
    return first


def wrong(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    yield (*shape, 1)
    for at, dim in enumerate(shape):
        yield (*shape[:at], dim + 1, *shape[at + 1 :])


def is_asked(call: str) -> bool:
    """Whether something is known of the dimensions of the result, which is a tensor."""
    type_ = ours(call)
    first = type_.fields[0] if isinstance(type_, TupleType) else type_
    is_known = isinstance(first, TensorType) and first.is_static
    return is_known and min(first.static_shape, default=0) >= 0


ASKED = [each for each in CALLS if is_asked(each)]
FOUND, LEFT = ([each for each in ASKED if (each in NOT_FOUND) == is_left] for is_left in (0, 1))


@pytest.mark.parametrize("call", [*sample(16, FOUND), *LEFT])
def test_the_right_result_is_accepted_and_a_wrong_one_is_not(call: str) -> None:
    graph = graph_of(call)
    type_ = results(graph)
    right = type_.static_shape

    assert "E0320" not in findings(pattern(graph, f"shape(y) == {written(right)}"))

    found = [findings(pattern(graph, f"shape(y) == {written(each)}")) for each in wrong(right)]
    assert all("E0320" in each for each in found) == (call not in NOT_FOUND)


def parts_to_leave_out(graph: Graph) -> Iterator[frozenset[str]]:
    """Each attribute, each operand, its dimensions, all of a sort, and everything."""
    attributes = frozenset(graph.nodes[graph.outputs[0]].attrs)
    operands = frozenset(node.name for node in graph.nodes if node.form is Form.INPUT)
    dims = frozenset(f"{name}[*]" for name in operands)
    yield from (frozenset({name}) for name in sorted(attributes | operands | dims))
    yield from (attributes, operands, dims, attributes | operands, attributes | dims)


@pytest.mark.parametrize("call", sample(16, [each for each in ASKED if each not in RARE]))
def test_the_right_result_is_accepted_where_less_is_said(call: str) -> None:
    graph = graph_of(call)
    right = f"shape(y) == {written(results(graph).static_shape)}"

    found = [findings(pattern(graph, right, unsaid=each)) for each in parts_to_leave_out(graph)]
    assert "E0320" not in chain.from_iterable(found)


@pytest.mark.parametrize("call", NEVER)
def test_a_call_that_is_in_no_model_is_refused_in_a_pattern(call: str) -> None:
    assert {"E0302", "E0320"} & {*findings(pattern(graph_of(call)))}


@pytest.mark.parametrize("call", sample(3, lines("What TVM refuses is refused")))
def test_a_call_that_tvm_refuses_is_refused_in_a_pattern(call: str) -> None:
    found = findings(pattern(graph_of(call, ": f32[*]")))

    assert any(code.startswith("E") for code in found)
