"""Sub-graphs inside sub-graphs: composites, and composites of composites."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import collage_dsl as collage
from collage_dsl.backends.registry import find_backend
from collage_dsl.cost import Cost, Infeasible
from collage_dsl.frontend.from_relax import from_relax
from collage_dsl.frontend.to_relax import to_relax
from collage_dsl.graph import (
    CandidateKernel,
    Composite,
    Graph,
    SubGraph,
    Toolchain,
    extract,
    label_of,
    members,
)
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.lower import build
from collage_dsl.realization.partition import realize
from collage_dsl.realization.signature import Signature
from collage_dsl.rules import OpCallByKind
from collage_dsl.rules.rule import Tagged
from collage_dsl.rules.trace import Trace
from tests.partitioned import assert_same_results
from tests.random_relax import relax_graph
from tests.test_partition_pass import array, chain, partitioned, spec, weighted

LIBRARY = Toolchain("ort", compiler="onnxruntime", options={"num_cores": 1})


# Operations on sub-graphs.


def random_sub_graph(generator: random.Random, graph: Graph, among: list[int]) -> SubGraph:
    """Some nodes, with constants, and some of them tagged, once or twice."""
    inside = 0
    for index in generator.sample(among, generator.randint(1, len(among))):
        inside |= 1 << index
    found = SubGraph(inside, graph.input(inside) & graph.constants)
    for label in "ab"[: generator.randint(0, 2)]:
        found = found.labelled(label)
    return found


def pairs() -> Iterator[tuple[Graph, SubGraph, SubGraph]]:
    for seed in range(50):
        generator = random.Random(seed)
        graph = relax_graph(generator, 8)
        nodes = list(members(graph.computed))
        half = len(nodes) // 2
        yield (
            graph,
            random_sub_graph(generator, graph, nodes[:half]),
            random_sub_graph(generator, graph, nodes[half:]),
        )


def is_sound(sub_graph: SubGraph) -> bool:
    """Whether composites are disjoint and inside, all the way down."""
    return _are_sound(sub_graph.inside, sub_graph.composites)


def _are_sound(inside: int, composites: tuple[Composite, ...]) -> bool:
    seen = 0
    for composite in composites:
        if composite.inside & (~inside | seen) or not composite.inside:
            return False
        seen |= composite.inside
    return all(_are_sound(each.inside, each.parts) for each in composites)


def test_the_union_of_disjoint_sub_graphs_is_one() -> None:
    for _, one, other in pairs():
        union = one | other

        assert is_sound(union)
        assert union == other | one
        assert union.inside == one.inside | other.inside
        assert set(union.composites) == {*one.composites, *other.composites}


def test_a_label_wraps_what_there_is() -> None:
    for _, one, other in pairs():
        union = one | other
        tagged = union.labelled("all")

        assert is_sound(tagged)
        assert (tagged.inside, tagged.constants) == (union.inside, union.constants)
        assert [c.label for c in tagged.composites] == ["all"]
        assert tagged.composites[0].parts == union.composites


def test_a_sub_graph_moves_to_another_graph_and_back() -> None:
    for graph, one, other in pairs():
        union = (one | other).labelled("all") if one.composites else one | other
        # The results of a call that gives a tuple come along.
        alone = extract(graph, union.inside, union.constants).graph
        moved = union.moved(graph, alone)

        assert is_sound(moved)
        assert alone.names(moved.inside) == graph.names(union.inside)
        assert alone.operators(moved.inside) == graph.operators(union.inside)
        assert moved.moved(alone, graph) == union
        assert label_of(alone, moved) == label_of(graph, union)


def test_the_union_of_moved_sub_graphs_is_the_moved_union() -> None:
    for graph, one, other in pairs():
        union = one | other
        alone = extract(graph, union.inside, union.constants).graph

        both = one.moved(graph, alone) | other.moved(graph, alone)
        assert set(both.composites) == set(union.moved(graph, alone).composites)
        assert both.inside == union.moved(graph, alone).inside


def test_sub_graphs_with_other_parts_are_not_equal() -> None:
    plain, tagged = SubGraph(6), SubGraph(6).labelled("a")

    assert plain.labelled("b") != tagged.labelled("b")
    assert tagged.labelled("b") == SubGraph(6).labelled("a").labelled("b")
    assert tagged.labelled("b") != plain.labelled("b").labelled("a")


def test_the_rule_keeps_the_composites_that_it_wraps() -> None:
    graph = relax_graph(random.Random(3), 4)
    rule = Tagged("outer", Tagged("inner", OpCallByKind()))

    for found in rule.propose(graph, Trace()):
        (outer,) = found.composites
        assert [part.label for part in outer.parts] == ["inner"]


# Functions.


def inner_functions(function: Any) -> list[Any]:
    """Labels of the composites of a function, each with those inside it."""
    inner = [
        binding.value
        for block in function.body.blocks
        for binding in block.bindings
        if isinstance(binding.value, relax.Function)
    ]
    return [(str(each.attrs["Composite"]), inner_functions(each)) for each in inner]


def nested(graph: Graph) -> SubGraph:
    """Of six calls, the first two and the last two are composites, those of one, of one of four."""
    a, b, c, d, e, f = (1 << index for index in members(graph.calls))
    first = SubGraph(a | b).labelled("first")
    second = SubGraph(c | d).labelled("second")
    return (first | second).labelled("both") | SubGraph(e) | SubGraph(f).labelled("last")


STEPS = (relax.op.exp, relax.op.nn.relu, relax.op.tanh, relax.op.sigmoid, relax.op.abs)


def kernels_of(module: tvm.IRModule) -> set[str]:
    return {var.name_hint for var in module.get_global_vars()} - {"main"}


def test_realize_makes_functions_inside_functions() -> None:
    graph = from_relax(chain(*STEPS, relax.op.negative))
    kernel = CandidateKernel(graph, nested(graph), LIBRARY)
    backend_of = lambda toolchain: find_backend(toolchain.compiler or "tvm")  # noqa: E731

    realized = realize(graph, [kernel], backend_of)
    (name,) = kernels_of(realized)

    relax.analysis.well_formed(realized)
    assert inner_functions(realized[name]) == [
        ("both", [("first", []), ("second", [])]),
        ("last", []),
    ]
    x = array(4, 6)
    output = ModelExecutable(build(realized), Signature.of(graph))
    (actual,) = output.run({"x": x}).values()
    expected = -np.abs(1 / (1 + np.exp(-np.tanh(np.maximum(np.exp(x), 0)))))
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


NESTED = """
pattern dense(x, w: const) { k = matmul(x, w); yield k; }
rule parts = union(composite("ort.dense", dfpattern(dense)), op_call_by_kind(elementwise));
rule pairs = combine_by_primitives(parts, using: [join_anything], max_nodes: 2);
rule blocks = composite("ort.block", pairs);
"""


def test_the_pass_makes_functions_inside_functions() -> None:
    rules = "combine_by_primitives(blocks, using: [join_anything])"
    library = spec(rules, 'compiler "onnxruntime";', name="ort", before=NESTED)
    module = chain(weighted, relax.op.nn.relu, weighted, relax.op.exp)

    def price(candidate: CandidateKernel) -> float:
        return 1.0 + len(candidate.sub_graph.composites)

    result = partitioned(module, library, cost=price)

    (name,) = {var.name_hint for var in result.get_global_vars()} - {"main"}
    assert inner_functions(result[name]) == [("ort.block", [("ort.dense", [])])] * 2
    assert_same_results(result, module, array(4, 6))


def test_a_composite_with_several_results_gives_each() -> None:
    text = """
    x: f32[4, 6]; a = exp(x); b = nn.relu(a); c = tanh(a); d = add(b, c); return d, a;
    """
    graph = collage.parse_graph(text)
    module = to_relax(Graph(graph.nodes, graph.outputs, returns_tuple=True))
    rules = 'combine_by_primitives(union(composite("ort.two", combine_by_primitives('
    rules += "op_call_by_kind(elementwise), using: [join_anything], max_nodes: 2)),"
    rules += " op_call_by_kind()), using: [join_anything])"
    library = spec(rules, 'compiler "onnxruntime"; limits { max_exits 4; taps true; }', name="ort")

    def price(candidate: CandidateKernel) -> Cost:
        tags = [candidate.graph.names(tag.inside) for tag in candidate.sub_graph.composites]
        is_wanted = candidate.nodes == {*"abcd"} and tags == [{"a", "b"}]
        return 1.0 if is_wanted else Infeasible("not what is tested")

    result = partitioned(module, library, cost=price)

    (name,) = {var.name_hint for var in result.get_global_vars()} - {"main"}
    two = result[name].body.blocks[0].bindings[0].value
    assert isinstance(two.ret_ty, relax.TupleType)
    assert_same_results(result, module, array(4, 6))


@pytest.mark.parametrize("toolchain", [LIBRARY, Toolchain("tvm")])
def test_composites_of_tvm_itself_are_no_functions(toolchain: Toolchain) -> None:
    graph = from_relax(chain(*STEPS, relax.op.negative))
    kernel = CandidateKernel(graph, nested(graph), toolchain)
    realized = realize(graph, [kernel], lambda t: find_backend(t.compiler or "tvm"))
    (name,) = kernels_of(realized)

    assert bool(inner_functions(realized[name])) == (toolchain == LIBRARY)
    assert isinstance(realized, tvm.IRModule)
