"""
Types of calls in text graphs, against TVM's own for the same calls: those in `inference.md`, and
one of each operator.
"""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest
import tvm
from hypothesis import settings
from tvm import relax

from collage_dsl.diagnostics import RuleError
from collage_dsl.frontend.attributes import attributes_type, relax_attributes
from collage_dsl.frontend.errors import UnsupportedRelax
from collage_dsl.frontend.from_relax import from_relax
from collage_dsl.frontend.to_relax import literal
from collage_dsl.frontend.types import relax_type, type_of
from collage_dsl.graph import Form, Graph, Node, OpaqueType, TensorType, Type
from collage_dsl.graph.operators import literal_values, operators, relax_operators
from collage_dsl.graph.types import tensors
from collage_dsl.language import check, format_graph, parse_graph
from collage_dsl.language.inference.infer import infer
from collage_dsl.language.inference.shapes import Call, MismatchError
from collage_dsl.language.loading import patterns
from collage_dsl.source import Source
from collage_dsl.witness.example import NoExampleError, example
from tests.cases import ASKED
from tests.random_texts import text_of

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

import operator_table

PAGE = Path(__file__).with_name("inference.md").read_text("utf-8")

TYPE = re.compile(r"\b(?:[fiu]\d+|bf16|bool|unknown)\[[^]]*\]")
TUPLE = re.compile(r"[(,] ?(\([^()]*\))")
SYMBOL = re.compile(r"\b[a-z]\b")

REFUSALS = (ValueError, TypeError, IndexError, tvm.error.InternalError)
"""What TVM raises where it infers no type."""


def lines(title: str) -> list[str]:
    section = PAGE.partition(f"## {title}\n")[2]
    return section.split("```")[1].split("\n")[1:-1]


def typed(title: str) -> list[list[str]]:
    return [line.split(" -> ") for line in lines(title)]


def graph_of(call: str, said: str = "") -> Graph:
    """The graph of `call`, in which types stand for inputs, and `(a, b)` for a tuple of them."""
    names = (f"x{at}" for at in range(9))
    inputs = ""

    def named(found: re.Match[str]) -> str:
        nonlocal inputs
        name = next(names)
        inputs += f"{name}: {found[0]}; "
        return name

    text = TYPE.sub(named, call)
    if fields := TUPLE.search(text):
        inputs += f"fields = {fields[1]}; "
        text = text.replace(fields[1], "fields")
    return parse_graph(f"{inputs}y{said} = {text}; return y;")


def ours(call: str) -> Type:
    graph = graph_of(call)
    return graph.nodes[graph.outputs[0]].type


def theirs(call: str) -> Type:
    """The type that TVM infers; ours is not asked, as one is said."""
    graph = graph_of(call, ": f32[*]")
    return inferred_by_tvm(graph, graph.nodes[-1])


def inferred_by_tvm(graph: Graph, node: Node) -> Type:
    """The type that TVM infers for a call of operands with the types that they have in `graph`."""

    def value(index: int) -> Any:
        each = graph.nodes[index]
        match each.form:
            case Form.LITERAL:
                return literal(each, {})
            case Form.TUPLE:
                return relax.Tuple([value(i) for i in each.inputs])
            case _:
                return relax.Var(each.name, relax_type(each.type, {}))

    operator = tvm.ir.Op.get("relax." + node.op)
    arguments = [value(i) for i in node.inputs]
    built = relax.Call(operator, arguments, relax_attributes(node.op, node.attrs))
    return type_of(relax.BlockBuilder().normalize(built).ty)


Errors = type[Exception] | tuple[type[Exception], ...]


def accepted(infer: Callable[[str], Type], calls: list[str], error: Errors, code: str) -> list[str]:
    """Those of `calls` for which no error is raised, or one of another `code`."""
    found = []
    for call in calls:
        try:
            infer(call)
        except error as problem:
            if code in str(problem):
                continue
        found.append(call)
    return found


def test_types_are_those_that_tvm_infers() -> None:
    calls = lines("Types are those that TVM infers")

    assert [(call, ours(call)) for call in calls] == [(call, theirs(call)) for call in calls]


def test_what_tvm_refuses_is_refused() -> None:
    calls = lines("What TVM refuses is refused")

    assert accepted(theirs, calls, REFUSALS, "") == []
    assert accepted(ours, calls, RuleError, "E0603") == []


@pytest.mark.parametrize(
    "call", lines("Results with dimensions below 1 are refused, which TVM infers")
)
def test_results_that_no_tensor_has_are_refused(call: str) -> None:
    dims = [dim for tensor in tensors(theirs(call)) for dim in tensor.static_shape]

    assert min(dims) < 1
    with pytest.raises(RuleError, match="E0603"):
        ours(call)


@pytest.mark.parametrize(
    "call", lines("More numbers than axes are refused, of which TVM reads the first")
)
def test_numbers_that_nobody_reads_are_refused(call: str) -> None:
    assert theirs(call)
    with pytest.raises(RuleError, match="E0603"):
        ours(call)


@pytest.mark.parametrize(
    ("call", "type_"),
    [
        *typed("Whether an operator computes a dtype is not asked, as TVM does"),
        *typed("Numbers of a shape may be left open or kept, where TVM's operator needs all"),
    ],
)
def test_what_only_tvm_refuses(call: str, type_: str) -> None:
    with pytest.raises(REFUSALS):
        theirs(call)
    assert str(ours(call)) == type_


def test_what_is_known_of_what_is_not() -> None:
    known = typed("Of what is not known")

    assert [[call, str(ours(call))] for call, _ in known] == known


def sizes_of(call: str) -> Iterator[dict[str, int]]:
    names = sorted(set(SYMBOL.findall(call)))
    alike = [(size,) * len(names) for size in (1, 3, 4, 6, 8, 16)]
    different = permutations((1, 3, 8), len(names)) if len(names) == 2 else ()
    yield from (dict(zip(names, sizes, strict=True)) for sizes in (*alike, *different))


def with_sizes(call: str, sizes: dict[str, int]) -> str:
    static = SYMBOL.sub(lambda found: str(sizes[found[0]]), call)
    return re.sub("`(.*?)`", lambda found: str(eval(found[1])), static)


def symbolic_calls() -> list[str]:
    calls = [call for call, _ in typed("Of what is not known")]
    return [call for call in calls if SYMBOL.search(call) and "*]" not in call and "-1" not in call]


@pytest.mark.parametrize("call", symbolic_calls())
def test_what_is_known_holds_for_each_size_that_tvm_takes(call: str) -> None:
    found = list(tensors(ours(call)))
    compared = 0
    for sizes in sizes_of(call):
        with suppress(*REFUSALS):
            static = theirs(with_sizes(call, sizes))
            for symbolic, tensor in zip(found, tensors(static), strict=True):
                dims = zip(symbolic.shape or (), tensor.static_shape, strict=True)
                known = [(eval(str(dim), {}, sizes), size) for dim, size in dims if dim != "?"]
                assert [dim for dim, _ in known] == [size for _, size in known]
                compared += 1

    assert compared


def samples() -> Iterator[tuple[str, Graph]]:
    """One call of each operator, in a graph that is read from Relax."""
    for name, arguments in operator_table.samples().items():
        operands, attributes = arguments()
        call = operator_table.constructor(name)(*operands, **attributes)
        builder = relax.BlockBuilder()
        with builder.function("main", list(dict.fromkeys(operator_table.variables(operands)))):
            builder.emit_func_output(builder.emit(call))
        try:
            yield name, from_relax(builder.get())
        except UnsupportedRelax:
            assert name == "layout_transform"  # takes a function


def test_each_operator_has_the_type_that_tvm_infers_or_none_that_is_known() -> None:
    left: set[str] = set()
    for name, graph in samples():
        node = next(node for node in graph.nodes if node.is_call)
        operands = [graph.nodes[i] for i in node.inputs]
        types = tuple(operand.type for operand in operands)
        found = infer(Call(node.op, types, literal_values(operands), node.attrs))
        if found != node.type:
            assert isinstance(found, TensorType)
            assert found.shape is None
            left.add(name)

    assert left == set(" ".join(lines("Operators whose results have no known shape")).split())


def test_attributes_have_the_type_that_tvm_declares() -> None:
    """TVM's inference of a call without them may end the process."""
    names = [name for name in relax_operators() if operators()[name].attrs]

    assert [name for name in names if not attributes_type(name)] == []


def test_of_operands_of_any_type_something_is_inferred() -> None:
    """What is wrong with them is said elsewhere, or by TVM."""
    for name, operator in operators().items():
        given = (OpaqueType(),) * len(operator.operands or ())
        call = Call(name, given, (None,) * len(given), operator.defaults)

        with suppress(MismatchError):
            infer(call)


IS_ABOUT_A_DTYPE = re.compile(r"data ?types?|dtype", re.IGNORECASE)


@pytest.mark.properties
def test_calls_in_random_graphs_have_the_types_that_tvm_infers() -> None:
    """Except whether an operator supports a dtype, which is not checked."""
    asked = settings.get_current_profile_name() == ASKED
    compared = 0
    for seed in range(settings().max_examples if asked else 60):
        text = text_of(Random(seed))
        if check(Source("random", text)):
            continue
        try:
            graph = example(patterns(text=text)["p"]).graph
        except NoExampleError:
            continue
        for node in graph.nodes:
            operands = [graph.nodes[i].type for i in node.inputs]
            if node.op == "layout_transform":  # takes a function, which no graph of a test has
                continue
            if node.op in relax_operators() and all(map(is_known, [node.type, *operands])):
                found = type_or_refusal(graph, node)
                if isinstance(found, str):
                    assert IS_ABOUT_A_DTYPE.search(found), text
                else:
                    assert found == node.type, f"{text}{format_graph(graph)}"
                    compared += 1

    assert compared > 20


def type_or_refusal(graph: Graph, node: Node) -> Type | str:
    """The type that TVM infers, or why it infers none."""
    try:
        return inferred_by_tvm(graph, node)
    except REFUSALS as refused:
        return str(refused)


def is_known(type_: Type) -> bool:
    return all(tensor.shape is not None for tensor in tensors(type_))
